//! `a2a-errata`: a transparent reverse proxy that repairs what A2A hosts answer when something
//! goes wrong.
//!
//! Imports point one way: `cli -> proxy, observe, config -> normalize -> protocol`. The rules live
//! in [`normalize`], which does no I/O; [`proxy`] is the thin Pingora shell that pumps it.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod demo;
pub mod normalize;
pub mod observe;
pub mod outbound;
pub mod probe;
pub mod protocol;
pub mod proxy;
