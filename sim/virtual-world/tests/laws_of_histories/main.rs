//! Laws of what checkers say: what follows from it for another history.

mod histories;
mod less_is_known;
mod told_otherwise;
