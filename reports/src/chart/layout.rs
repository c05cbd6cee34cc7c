//! What charts have in common: where things stand, and in which letters.

use super::font::Type;

/// The size of a chart, in its own units: pixels of a common screen.
pub(crate) const SIZE: (u32, u32) = (960, 600);

pub(crate) const LEFT: f64 = 92.0;
pub(crate) const TOP: f64 = 112.0;
pub(crate) const BOTTOM: f64 = 524.0;
/// Where titles begin.
pub(crate) const MARGIN: f64 = 32.0;
/// How far apart the labels of lines stand at least.
pub(crate) const LABEL_HEIGHT: f64 = 42.0;
pub(crate) const LINE_WIDTH: f64 = 2.0;
pub(crate) const MARK_RADIUS: f64 = 4.5;

pub(crate) const TITLE: Type = Type::bold(19.0);
pub(crate) const SUBTITLE: Type = Type::regular(13.0);
pub(crate) const SCALE: Type = Type::regular(12.0);
pub(crate) const NAME: Type = Type::bold(13.0);
pub(crate) const NOTE: Type = Type::regular(11.5);
