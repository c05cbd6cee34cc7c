//! The painting as SVG and as PNG.
//!
//! Invariant: an SVG's texts are texts, and it has no script and refers to nothing outside itself. A PNG is painted at
//! four times the size and scaled down to twice: plotters smooths thick strokes little.

use std::path::Path;

use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

use super::error::ChartError;
use super::font::{self, FAMILY};
use super::layout::SIZE;
use super::palette;
use super::pen::{BITMAP, Measures, Pen, SVG};
use crate::format::plain;

/// Coordinates are whole numbers; so many stand for a unit of the chart, for smooth lines.
const SVG_SCALE: u32 = 2;
/// Pixels of the PNG for a unit of the chart.
const PNG_SCALE: u32 = 2;
/// Painted pixels that become one, in each direction.
const SMOOTHING: u32 = 2;
const CHANNELS: usize = 3;
/// With what every whole PNG ends: an empty chunk of this name, and its checksum.
const PNG_END: &[u8] = b"IEND\xae\x42\x60\x82";

/// A part of a drawing that says more where it is pointed at.
#[derive(Clone, Debug, PartialEq)]
pub struct Hover {
    /// Its corners, or the points of its line, in units of the drawing.
    pub points: Vec<(f64, f64)>,
    /// Whether it is a line, rather than an area.
    pub is_line: bool,
    /// What it says.
    pub text: String,
}

/// What can be painted.
pub trait Drawing {
    /// How large it is, in its own units.
    fn size(&self) -> (u32, u32) {
        SIZE
    }

    /// Its title, for those who cannot see it.
    fn title(&self) -> String;

    /// What says more where it is pointed at, in an SVG; a later one lies above those before it.
    fn hovers(&self) -> Vec<Hover> {
        Vec::new()
    }

    /// Paints it.
    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError>;
}

/// A chart as an SVG document, to be shown by itself or set into HTML.
///
/// # Errors
/// Where plotters fails, which would be a defect.
pub fn svg(painting: &dyn Drawing) -> Result<String, ChartError> {
    let mut drawing = String::new();
    let (width, height) = painting.size();
    let size = (width * SVG_SCALE, height * SVG_SCALE);
    let backend = SVGBackend::with_string(&mut drawing, size);
    draw(backend, SVG_SCALE, SVG, painting)?;
    // plotters' own opening tag gives the fine coordinates as the size in pixels and knows no title.
    let body = drawing.split_once('>').map_or("", |(_, body)| body);
    let body = without_repetition(body.trim_end().trim_end_matches("</svg>"));
    let title = escape(&painting.title());
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" font-family=\"{FAMILY}\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\">\n\
         <title>{title}</title><style>{}{HOVERED}</style>{body}{}</svg>\n",
        size.0,
        size.1,
        palette::by_night(),
        hover_shapes(&painting.hovers())
    ))
}

/// What plotters says of each shape and text, though all have it or it goes without saying: a third of a drawing. Texts stand in
/// lines of their own, in which no `<` can be, and stay as they are.
fn without_repetition(body: &str) -> String {
    let family = format!(" font-family=\"{FAMILY}\"");
    let lines = body.split_inclusive('\n').map(|line| match line.starts_with('<') {
        true => line.replace(&family, "").replace(" opacity=\"1\"", ""),
        false => line.to_owned(),
    });
    lines.collect()
}

/// How a part looks that is pointed at.
const HOVERED: &str = ".hover polygon:hover{fill:#888;fill-opacity:.22}\
    .hover polyline:hover{stroke:#888;stroke-opacity:.45}";

/// Shapes that cannot be seen, each with its title, which browsers show where one points.
fn hover_shapes(hovers: &[Hover]) -> String {
    let mut shapes = String::from("<g class=\"hover\">\n");
    for Hover { points, is_line, text } in hovers {
        let place = |(x, y): &(f64, f64)| {
            format!("{:.0},{:.0}", x * f64::from(SVG_SCALE), y * f64::from(SVG_SCALE))
        };
        let points = points.iter().map(place).collect::<Vec<_>>().join(" ");
        let (name, look) = match is_line {
            true => ("polyline", "fill=\"none\" stroke=\"transparent\" stroke-width=\"14\""),
            false => ("polygon", "fill=\"transparent\""),
        };
        let title = escape(&plain(text));
        shapes += &format!("<{name} points=\"{points}\" {look}><title>{title}</title></{name}>\n");
    }
    shapes + "</g>\n"
}

/// Writes a chart as a PNG to this path, whose name must end in `.png`.
///
/// # Errors
/// Where the file cannot be written in full.
pub fn png(painting: &dyn Drawing, path: &Path) -> Result<(), ChartError> {
    let scale = PNG_SCALE * SMOOTHING;
    let (width, height) = painting.size();
    let large = (width * scale, height * scale);
    let mut pixels = vec![0; large.0 as usize * large.1 as usize * CHANNELS];
    draw(BitMapBackend::with_buffer(&mut pixels, large), scale, BITMAP, painting)?;
    let size = (width * PNG_SCALE, height * PNG_SCALE);
    let small = smooth(&pixels, large.0 as usize);
    let mut file = BitMapBackend::new(path, size);
    file.blit_bitmap((0, 0), size, &small).map_err(ChartError::from_display)?;
    // Plotters tells why in the words of its encoder, which no user knows.
    let unwritten =
        || ChartError::from_display("the file was not written in full; is the disk full?");
    file.present().map_err(|_| unwritten())?;
    drop(file);
    // The encoder's last bytes may be lost without an error, on a full disk for one.
    let written = std::fs::read(path).map_err(ChartError::from_display)?;
    if written.ends_with(PNG_END) { Ok(()) } else { Err(unwritten()) }
}

fn draw(
    backend: impl DrawingBackend,
    scale: u32,
    measures: Measures,
    painting: &dyn Drawing,
) -> Result<(), ChartError> {
    font::register()?;
    let area = backend.into_drawing_area();
    let pen = Pen { surface: &area, scale: f64::from(scale), measures };
    painting.paint(&pen)?;
    area.present().map_err(ChartError::from_display)
}

/// Averages squares of pixels.
fn smooth(pixels: &[u8], width: usize) -> Vec<u8> {
    let side = SMOOTHING as usize;
    let row = width * CHANNELS;
    let mut small = Vec::with_capacity(pixels.len() / (side * side));
    for rows in pixels.chunks_exact(row * side) {
        for x in (0..width).step_by(side) {
            for channel in 0..CHANNELS {
                let of = |place: usize| {
                    let (dx, dy) = (place % side, place / side);
                    u32::from(rows[dy * row + (x + dx) * CHANNELS + channel])
                };
                let sum: u32 = (0..side * side).map(of).sum();
                let mean = sum / (SMOOTHING * SMOOTHING);
                small.push(u8::try_from(mean).expect("a mean of bytes is a byte"));
            }
        }
    }
    small
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
