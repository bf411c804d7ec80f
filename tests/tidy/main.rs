//! Keeps the repository tidy: short functions and files, no leftovers, maps and examples that are true.
//!
//! Why a test: a rule that is not checked is a wish. Each rule names the file and line it is about, and the two length
//! rules are ratchets: what was too long when the rule came is listed with its length, and may only shrink.

mod documents;
mod lengths;
mod source;
mod words;
