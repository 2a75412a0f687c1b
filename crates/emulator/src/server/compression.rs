//! Content coding of responses: gzip, where a client takes it and it is worth it (RFC 9110, section 8.4).

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Response};

use super::limits::{MAX_INLINE_GZIP_BYTES, MIN_GZIP_BYTES};

/// Whether a client takes responses in gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    // Most requests name no coding, or one: no map of qualities is made.
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight.trim().strip_prefix("q=").map(str::trim);
            let refused = weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32));
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        })
    })
}

/// The response in gzip, if its body is long enough.
pub(super) async fn compressed(response: Response<Bytes>) -> Response<Bytes> {
    let length = response.body().len();
    if length < MIN_GZIP_BYTES || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let body = response.body().clone();
    let packed = if length <= MAX_INLINE_GZIP_BYTES {
        gzip(&body)
    } else {
        // A thread that failed leaves the body as it was, which every client takes too.
        tokio::task::spawn_blocking(move || gzip(&body)).await.unwrap_or_default()
    };
    let Some(packed) = packed else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, packed)
}

fn gzip(body: &[u8]) -> Option<Bytes> {
    // The fastest level: clients are near, and the emulator shares its machine with them.
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).ok()?; // Into memory; it does not fail.
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn accepting(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn gzip_is_taken_where_it_is_named_and_not_refused() {
        for value in ["gzip", "gzip, deflate", "deflate,GZIP;q=0.5", "br;q=1, gzip ; q=1"] {
            assert!(takes_gzip(&accepting(value)), "{value}");
        }
        for value in ["", "identity", "deflate, br", "gzip;q=0", "gzip; q=0.0", "xgzip"] {
            assert!(!takes_gzip(&accepting(value)), "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn bodies_that_are_long_enough_are_packed() {
        for length in [
            0,
            MIN_GZIP_BYTES - 1,
            MIN_GZIP_BYTES,
            MAX_INLINE_GZIP_BYTES,
            MAX_INLINE_GZIP_BYTES + 1,
        ] {
            let body = Bytes::from("abc".repeat(length).split_off(2 * length));
            let response = compressed(Response::new(body.clone())).await;
            let coded = response.headers().contains_key(CONTENT_ENCODING);
            assert_eq!(coded, length >= MIN_GZIP_BYTES, "{length}");
            let mut unpacked = Vec::new();
            if coded {
                GzDecoder::new(&response.body()[..]).read_to_end(&mut unpacked).unwrap();
                assert!(response.body().len() < body.len());
            } else {
                unpacked.extend(response.body());
            }
            assert_eq!(unpacked, body, "{length}");
        }
    }
}
