//! The chart's colours and marks, by day and by night.
//!
//! Invariant: two lines differ in colour to every kind of colour vision (the palette is Okabe and
//! Ito's, without its yellow, which is lost on white) and in the shape of their mark, which survives
//! a black and white printer.

use std::f64::consts::TAU;

use plotters::style::{RGBColor, WHITE};

/// Titles and names.
pub(crate) const INK: RGBColor = RGBColor(0x1c, 0x1f, 0x24);
/// Everything that explains.
pub(crate) const FAINT_INK: RGBColor = RGBColor(0x5a, 0x62, 0x6e);
/// The axes.
pub(crate) const AXIS: RGBColor = RGBColor(0x8a, 0x92, 0x9e);
/// The grid.
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
/// Where all that is wanted is met, and the ink for its name.
pub(crate) const MET: RGBColor = RGBColor(0xdd, 0xf1, 0xe1);
pub(crate) const MET_INK: RGBColor = RGBColor(0x17, 0x65, 0x3b);

/// Harm, and where two hold at once.
pub(crate) const HARM: RGBColor = RGBColor(0xb4, 0x14, 0x2d);
/// Where nobody gets on.
pub(crate) const STALL: RGBColor = RGBColor(0xb8, 0x86, 0x00);

/// What becomes of each colour on a dark page: the card's own colour, inks that are light, and lines
/// bright enough for it.
const NIGHT: [(RGBColor, &str); 16] = [
    (WHITE, "#1c2026"),
    (INK, "#e6e9ed"),
    (FAINT_INK, "#a0a8b4"),
    (AXIS, "#7b8490"),
    (GRID, "#343a43"),
    (MET_INK, "#8fdcae"),
    (MET, "#163825"),
    (HARM, "#ff7b86"),
    (STALL, "#e0b84a"),
    (LINES[0].0, "#4fa8e0"),
    (LINES[1].0, "#ff8f4a"),
    (LINES[2].0, "#33c79d"),
    (LINES[3].0, "#e59fc6"),
    (LINES[4].0, "#f2b63c"),
    (LINES[5].0, "#a3daf7"),
    (LINES[6].0, "#d3d8de"),
];

/// The style by which an SVG follows the reader's choice of a dark page. Viewers that know no such
/// choice show it as by day.
pub(crate) fn by_night() -> String {
    let rules = NIGHT.iter().map(|(RGBColor(red, green, blue), night)| {
        let day = format!("#{red:02X}{green:02X}{blue:02X}");
        format!("svg [fill=\"{day}\"]{{fill:{night}}}svg [stroke=\"{day}\"]{{stroke:{night}}}")
    });
    format!("@media (prefers-color-scheme: dark){{{}}}", rules.collect::<String>())
}

/// How many lines can be told apart.
pub(crate) const MOST_LINES: usize = LINES.len();

const LINES: [(RGBColor, Marker); 7] = [
    (RGBColor(0x00, 0x72, 0xb2), Marker { corners: 24, turn: 0.0, size: 1.0 }),
    (RGBColor(0xd5, 0x5e, 0x00), Marker { corners: 4, turn: 0.125, size: 1.25 }),
    (RGBColor(0x00, 0x9e, 0x73), Marker { corners: 3, turn: 0.75, size: 1.35 }),
    (RGBColor(0xcc, 0x79, 0xa7), Marker { corners: 4, turn: 0.0, size: 1.3 }),
    (RGBColor(0xe6, 0x9f, 0x00), Marker { corners: 3, turn: 0.25, size: 1.35 }),
    (RGBColor(0x56, 0xb4, 0xe9), Marker { corners: 5, turn: 0.75, size: 1.2 }),
    (RGBColor(0x33, 0x33, 0x33), Marker { corners: 6, turn: 0.0, size: 1.15 }),
];

/// The shape at the end of a line: a regular polygon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    corners: u32,
    /// Where the first corner stands, in parts of a full turn; 0 is to the right, 0.25 below.
    turn: f64,
    /// The radius, as a multiple of a circle's that looks as large.
    size: f64,
}

impl Marker {
    /// The corners, around this point.
    pub(crate) fn corners(self, (x, y): (f64, f64), radius: f64) -> Vec<(f64, f64)> {
        let Self { corners, turn, size } = self;
        let angle = |corner: u32| (turn + f64::from(corner) / f64::from(corners)) * TAU;
        let at = |angle: f64| (x + radius * size * angle.cos(), y + radius * size * angle.sin());
        (0..corners).map(|corner| at(angle(corner))).collect()
    }
}

/// The colour of the client in the lane of this number: those that look like harm come last.
pub(crate) fn lane(number: usize) -> RGBColor {
    const ORDER: [usize; 7] = [0, 4, 2, 3, 5, 6, 1];
    LINES[ORDER[number % ORDER.len()]].0
}

/// The colour and mark of the line of this number.
pub(crate) fn line(number: usize) -> (RGBColor, Marker) {
    LINES[number % LINES.len()]
}
