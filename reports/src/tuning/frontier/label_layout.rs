//! Where on a chart there is room for a text.
//!
//! Invariant: a text is set where it touches no line, no mark and no other text, or not at all.

/// A point of the chart.
pub(super) type Position = (f64, f64);

/// How far apart places are that are tried.
const STEP: f64 = 6.0;
/// So much farther away a text may stand so that its leader crosses one line or mark less.
const CROSSING: f64 = 50.0;
/// A leader ends so far from the text.
const MARGIN: f64 = 3.0;

/// An upright box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    /// A box of this size whose upper left corner is here.
    pub(super) fn at((left, top): Position, (width, height): Position) -> Self {
        Self { left, top, right: left + width, bottom: top + height }
    }

    /// The box around this point.
    pub(super) fn around((x, y): Position, radius: f64) -> Self {
        Self { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }

    pub(super) fn grown(self, by: f64) -> Self {
        let Self { left, top, right, bottom } = self;
        Self { left: left - by, top: top - by, right: right + by, bottom: bottom + by }
    }

    pub(super) fn touches(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether the whole of the other lies in this one.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }

    /// Whether a straight line from here to there comes into it (Liang and Barsky).
    pub(super) fn is_crossed(&self, (from, to): (Position, Position)) -> bool {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (way, room) in [
            (-dx, from.0 - self.left),
            (dx, self.right - from.0),
            (-dy, from.1 - self.top),
            (dy, self.bottom - from.1),
        ] {
            if way == 0.0 {
                if room <= 0.0 {
                    return false;
                }
            } else if way < 0.0 {
                enters = enters.max(room / way);
            } else {
                leaves = leaves.min(room / way);
            }
        }
        enters < leaves
    }

    /// Its point that is nearest to this one.
    pub(super) fn nearest(&self, (x, y): Position) -> Position {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

/// What is there already.
#[derive(Clone, Debug)]
pub(super) struct FreeSpace {
    /// Nothing is set outside of it.
    pub(super) within: Rect,
    pub(super) lines: Vec<(Position, Position)>,
    pub(super) marks: Vec<Rect>,
    /// No leader crosses a text.
    pub(super) texts: Vec<Rect>,
}

impl FreeSpace {
    /// Whether a box of this kind is free, with some room around it.
    pub(super) fn is_free(&self, rect: &Rect) -> bool {
        self.within.holds(rect)
            && !self.marks.iter().chain(&self.texts).any(|it| it.touches(rect))
            && !self.lines.iter().any(|it| rect.is_crossed(*it))
    }

    /// A free place for a box of this size close to a mark of this radius.
    pub(super) fn beside(&self, (x, y): Position, radius: f64, size: Position) -> Option<Rect> {
        let (width, height) = size;
        let near = radius + 3.0;
        let corners = [
            (x + near, y - near - height),
            (x + near, y + near),
            (x - near - width, y + near),
            (x - near - width, y - near - height),
            (x + near, y - height / 2.0),
            (x - near - width, y - height / 2.0),
            (x - width / 2.0, y - near - height),
            (x - width / 2.0, y + near),
        ];
        let free = corners.into_iter().map(|corner| Rect::at(corner, size));
        free.into_iter().find(|it| self.is_free(&it.grown(1.0)))
    }

    /// The free place for a box of this size that is best tied to a point by a straight leader.
    pub(super) fn tied_to(&self, point: Position, radius: f64, size: Position) -> Option<Rect> {
        let mut best: Option<(f64, Rect)> = None;
        let mut top = self.within.top;
        while top + size.1 <= self.within.bottom {
            let mut left = self.within.left;
            while left + size.0 <= self.within.right {
                let rect = Rect::at((left, top), size);
                let way = leader(point, radius, &rect);
                let length = (way.1.0 - way.0.0).hypot(way.1.1 - way.0.1);
                let better = |cost: f64| best.is_none_or(|(least, _)| cost < least);
                left += STEP;
                if !better(length) || !self.is_free(&rect.grown(4.0)) {
                    continue;
                }
                if self.texts.iter().any(|it| it.is_crossed(way)) {
                    continue;
                }
                let crossed = self.lines.iter().filter(|it| cross(**it, way)).count()
                    + self.marks.iter().filter(|it| it.is_crossed(way)).count();
                let cost = length + CROSSING * crossed as f64;
                if better(cost) {
                    best = Some((cost, rect));
                }
            }
            top += STEP;
        }
        best.map(|it| it.1)
    }
}

/// The straight way from the ring around a point to the edge of a box.
pub(super) fn leader(point: Position, radius: f64, rect: &Rect) -> (Position, Position) {
    let end = rect.grown(MARGIN).nearest(point);
    let (dx, dy) = (end.0 - point.0, end.1 - point.1);
    let length = dx.hypot(dy).max(radius);
    ((point.0 + dx * radius / length, point.1 + dy * radius / length), end)
}

/// Whether two straight lines cross.
fn cross((a, b): (Position, Position), (c, d): (Position, Position)) -> bool {
    let side = |p: Position, q: Position, r: Position| {
        (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0)
    };
    (side(a, b, c) > 0.0) != (side(a, b, d) > 0.0) && (side(c, d, a) > 0.0) != (side(c, d, b) > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: Rect = Rect { left: 10.0, top: 10.0, right: 20.0, bottom: 20.0 };

    #[test]
    fn a_line_is_in_a_box_or_beside_it() {
        for (from, to, within) in [
            ((0.0, 15.0), (30.0, 15.0), true),
            ((0.0, 9.9), (30.0, 9.9), false),
            ((0.0, 10.1), (30.0, 10.1), true),
            ((15.0, 0.0), (15.0, 9.9), false),
            ((15.0, 0.0), (15.0, 10.1), true),
            ((0.0, 15.0), (30.0, -16.0), false),
            ((0.0, 15.0), (30.0, 12.0), true),
            ((12.0, 12.0), (13.0, 13.0), true),
            ((25.0, 15.0), (30.0, 15.0), false),
        ] {
            assert_eq!(BOX.is_crossed((from, to)), within, "{from:?} {to:?}");
            assert_eq!(BOX.is_crossed((to, from)), within, "{to:?} {from:?}");
        }
    }

    #[test]
    fn boxes_touch_or_do_not() {
        let moved = |by: f64| Rect::at((10.0 + by, 10.0), (10.0, 10.0));
        assert!(BOX.touches(&moved(9.9)) && !BOX.touches(&moved(10.0)));
        assert!(BOX.holds(&BOX) && !BOX.holds(&moved(0.1)));
    }

    #[test]
    fn a_text_goes_where_there_is_room_or_nowhere() {
        let within = Rect::at((0.0, 0.0), (100.0, 60.0));
        let mut room =
            FreeSpace { within, lines: Vec::new(), marks: Vec::new(), texts: Vec::new() };
        let size = (30.0, 10.0);
        let up = room.beside((50.0, 30.0), 4.0, size).unwrap();
        assert!(up.bottom < 30.0 && up.left > 50.0);
        room.lines.push(((50.0, 30.0), (100.0, 5.0)));
        let down = room.beside((50.0, 30.0), 4.0, size).unwrap();
        assert!(down.top > 30.0 && down.left > 50.0);
        room.marks.push(within);
        assert_eq!(room.beside((50.0, 30.0), 4.0, size), None);
        assert_eq!(room.tied_to((50.0, 30.0), 4.0, size), None);
    }

    #[test]
    fn a_leader_crosses_as_little_as_can_be() {
        let within = Rect::at((0.0, 0.0), (200.0, 60.0));
        let wall = ((110.0, 0.0), (110.0, 60.0));
        let full = Rect::at((50.0, 0.0), (49.0, 60.0));
        let mut room =
            FreeSpace { within, lines: vec![wall], marks: vec![full], texts: Vec::new() };
        let right = room.tied_to((104.0, 30.0), 4.0, (30.0, 10.0)).unwrap();
        assert!(right.left > 110.0, "{right:?}");
        room.marks.clear();
        let left = room.tied_to((104.0, 30.0), 4.0, (30.0, 10.0)).unwrap();
        assert!(left.right < 104.0, "{left:?}");
        // Behind a text there is no way, behind a mark there is a long one.
        let behind = Rect { right: 60.0, ..within };
        room.within = behind;
        room.marks.push(full);
        assert!(room.tied_to((104.0, 30.0), 4.0, (30.0, 10.0)).is_some());
        room.texts.push(full);
        assert_eq!(room.tied_to((104.0, 30.0), 4.0, (30.0, 10.0)), None);
        assert!(cross(wall, ((100.0, 5.0), (120.0, 5.0))));
        assert!(!cross(wall, ((100.0, 5.0), (109.0, 5.0))));
    }
}
