//! Opaque text that applications keep for us: base64url of a version, a checksum and JSON. The checksum tells a text
//! that was cut off or changed from one that is whole; it is no signature, so what is inside is checked by its reader.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest text there is: room for the sort values of a thousand ranges.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// A value as text.
pub(crate) fn seal(version: u8, value: &impl Serialize) -> Result<String, std::fmt::Error> {
    let json = serde_json::to_vec(value).map_err(|_| std::fmt::Error)?;
    let mut bytes = vec![version];
    bytes.extend(crc32fast::hash(&json).to_le_bytes());
    bytes.extend(json);
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The value of a text.
///
/// # Errors
///
/// The reason, as a clause that completes "the token is invalid: …".
pub(crate) fn open<T: DeserializeOwned>(supported: u8, text: &str) -> Result<T, String> {
    if text.len() > MAX_BYTES {
        return Err("it is too long".to_owned());
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| "it is not base64url")?;
    let (version, rest) = bytes.split_first().ok_or("it is empty")?;
    if *version != supported {
        return Err(format!("its version is {version}, and {supported} is supported"));
    }
    let (checksum, json) = rest.split_first_chunk::<4>().ok_or("it was cut off")?;
    if crc32fast::hash(json) != u32::from_le_bytes(*checksum) {
        return Err("it was changed or cut off".to_owned());
    }
    serde_json::from_slice(json).map_err(|_| "its content cannot be read".to_owned())
}
