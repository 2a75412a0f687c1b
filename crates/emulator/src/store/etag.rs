//! Etags in the service's format.

use sidereal_protocol::Etag;

/// An etag in the service's format: a counter and the second of the write.
pub(crate) fn new_etag(version: u64, seconds: u64) -> Etag {
    let (low, high) = (version & 0xffff_ffff, (version >> 32) & 0xffff);
    let text = format!("\"{low:08x}-{high:04x}-0000-0000-{seconds:08x}0000\"");
    Etag::new(text).expect("hexadecimal digits and hyphens in quotes are an etag")
}
