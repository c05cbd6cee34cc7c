//! The embedded font, and how wide texts are in it.
//!
//! Invariant: nothing is asked of the system's fonts; what is measured here is what a PNG shows.
//! A viewer of the SVG may lack the font and take one that is no wider.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

use super::error::ChartError;

/// The name under which the font is registered, which is also the list a browser chooses from.
pub(crate) const FAMILY: &str = "DejaVu Sans, Verdana, Segoe UI, Helvetica, Arial, sans-serif";
/// The em of the font as a part of its height from ascent to descent, which is what plotters calls
/// the size of an embedded font.
pub(crate) const SIZE_PER_EM: f64 = 2384.0 / 2048.0;

static REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold.ttf");

/// Widths are measured at a size at which rounding to pixels does not matter.
const MEASURED_EM: f64 = 256.0;

/// How large and heavy a text is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) em: f64,
    pub(crate) bold: bool,
}

impl Type {
    /// The upright face of this size.
    pub(crate) const fn regular(em: f64) -> Self {
        Self { em, bold: false }
    }

    /// The bold face of this size.
    pub(crate) const fn bold(em: f64) -> Self {
        Self { em, bold: true }
    }

    /// The face, at a size in the backend's measure.
    pub(crate) fn at_size(self, size: f64) -> FontDesc<'static> {
        let style = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        FontDesc::new(FontFamily::Name(FAMILY), size, style)
    }

    /// How wide the text is, in the unit of `em`.
    pub(crate) fn width(self, text: &str) -> Result<f64, ChartError> {
        let measured = self.at_size(MEASURED_EM * SIZE_PER_EM).box_size(text);
        let (width, _) = measured.map_err(ChartError::from_display)?;
        Ok(f64::from(width) / MEASURED_EM * self.em)
    }

    /// The text, cut short with an ellipsis where it is wider than this.
    pub(crate) fn fit(self, text: &str, width: f64) -> Result<String, ChartError> {
        let mut fitting = text.to_owned();
        let mut kept = text.chars().count();
        while self.width(&fitting)? > width && kept > 0 {
            kept -= 1;
            let start: String = text.chars().take(kept).collect();
            fitting = format!("{}…", start.trim_end());
        }
        Ok(fitting)
    }

    /// The text in lines of this width, at most so many; the last is cut short.
    pub(crate) fn wrapped(
        self,
        text: &str,
        width: f64,
        most: usize,
    ) -> Result<Vec<String>, ChartError> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let longer = lines.last().map(|line| format!("{line} {word}"));
            match longer {
                Some(longer) if lines.len() == most || self.width(&longer)? <= width => {
                    *lines.last_mut().expect("it was just looked at") = longer;
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.iter().map(|line| self.fit(line, width)).collect()
    }
}

/// Makes the font known to plotters; again does no harm.
pub(crate) fn register() -> Result<(), ChartError> {
    for (style, bytes) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
        register_font(FAMILY, style, bytes)
            .map_err(|_| ChartError::from_display("the embedded font is not a font"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_font() {
        register().unwrap();
        let regular = Type::regular(10.0).width("0000").unwrap();
        assert!((regular - 4.0 * 6.36).abs() < 0.2, "{regular}");
        assert!(Type::bold(10.0).width("0000").unwrap() > regular);
    }

    #[test]
    fn a_long_text_is_cut_and_a_short_one_is_not() {
        register().unwrap();
        let face = Type::regular(10.0);
        assert_eq!(face.fit("short", 100.0).unwrap(), "short");
        let cut = face.fit(&"long ".repeat(50), 100.0).unwrap();
        assert!(cut.ends_with("g…") || cut.ends_with("n…") || cut.ends_with("o…"), "{cut}");
        assert!(face.width(&cut).unwrap() <= 100.0);
    }
}
