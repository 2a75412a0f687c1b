//! Claims challenges: claims that the service demands of an access token (continuous access evaluation, CAE).

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// The parameter of a `Bearer` challenge (RFC 6750, section 3) that carries the claims.
const CLAIMS: &str = "claims=\"";

/// The most bytes of claims that are passed on; a directory refuses what is far longer.
const MAX_CLAIMS: usize = 8 * 1024;

/// The claims that a refusal demands, as JSON. The service sends them in base64, with or without padding, in
/// either alphabet.
pub(super) fn claims_of(headers: &HeaderMap) -> Option<Arc<str>> {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    challenges.filter_map(|it| it.to_str().ok()).find_map(|challenge| {
        // ASCII lower case keeps the positions: names of parameters compare without regard to case.
        let at = challenge.to_ascii_lowercase().find(CLAIMS)? + CLAIMS.len();
        let (encoded, _) = challenge[at..].split_once('"')?;
        let config = GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        let decode = |alphabet| GeneralPurpose::new(alphabet, config).decode(encoded).ok();
        let claims = decode(&STANDARD).or_else(|| decode(&URL_SAFE))?;
        let claims = String::from_utf8(claims).ok()?;
        (claims.starts_with('{') && claims.len() <= MAX_CLAIMS).then(|| claims.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(challenge: &str) -> Option<String> {
        let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, challenge.parse().unwrap())]);
        claims_of(&headers).map(|claims| claims.to_string())
    }

    #[test]
    fn the_claims_of_a_challenge_are_decoded() {
        let json = r#"{"access_token":{"nbf":{"essential":true,"value":"1"}}}"#;
        let encoded = "eyJhY2Nlc3NfdG9rZW4iOnsibmJmIjp7ImVzc2VudGlhbCI6dHJ1ZSwidmFsdWUiOiIxIn19fQ";
        for padding in ["", "=="] {
            let challenge = format!(
                "Bearer realm=\"\", error=\"insufficient_claims\", Claims=\"{encoded}{padding}\""
            );
            assert_eq!(claims(&challenge).as_deref(), Some(json));
        }
    }

    #[test]
    fn a_challenge_without_readable_claims_demands_none() {
        for challenge in
            ["Bearer", "Bearer claims=\"\"", "Bearer claims=\"%%\"", "Bearer claims=\"eyI"]
        {
            assert_eq!(claims(challenge), None, "{challenge}");
        }
        assert_eq!(claims_of(&HeaderMap::new()), None);
    }
}
