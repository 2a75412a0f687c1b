//! The report of a run: one HTML page with everything in it, charts included.
//!
//! No script, no font and no picture from anywhere: what is written can be mailed, archived and opened without a
//! network. Colours follow the reader's choice of light or dark.

mod charts;
mod page;
mod plot;
mod tables;

pub(crate) use page::{Report, page};

/// A text with what HTML reads as markup escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn markup_in_a_region_s_name_is_text() {
        assert_eq!(escaped("<b> & \"it's\""), "&lt;b&gt; &amp; &quot;it&#39;s&quot;");
    }
}
