//! An incident as a picture: who held the lock's key, what each client did, and which messages went between them.
//!
//! Invariant: one layout serves SVG, PNG and Mermaid; it follows from the history and the witnesses alone, and says in words
//! whatever a colour says.

mod bands;
mod build;
mod cause;
mod client_lane;
mod facts;
mod frame;
pub(crate) mod group;
mod hover;
mod key_lane;
mod label_shift;
mod layout;
mod legend;
mod mermaid;
mod message;
mod notice;
mod painting;
mod resource;
mod scale;
mod shapes;
mod ticks;
mod trace;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use layout::IncidentLayout;
pub(crate) use mermaid::mermaid;
pub(crate) use painting::IncidentChart;
pub(crate) use trace::{EVENTS_MOST, trace};
