//! What the process tests share. Every test file uses its own part of it.
#![allow(dead_code, unreachable_pub, reason = "compiled into each test file, and no file uses all of it")]

pub mod client;
pub mod ensemble;
pub mod process;
