//! Which paths a Rust source names: imports, and paths written out, also inside macros.
//!
//! Tokens are enough for that, and see what a syntax tree does not: the arguments of macros. Items under
//! `#[cfg(test)]` are left out, because tests may know anything.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The paths that a source names, relative ones resolved against the module that it is.
///
/// `use a::{b, c::d}` counts as `a::b` and `a::c::d`.
pub(crate) fn named_paths(source: &str, module: &[String]) -> BTreeSet<String> {
    let tokens: TokenStream = source.parse().expect("a source that compiles has valid tokens");
    let mut paths = BTreeSet::new();
    collect(tokens, "", &mut paths);
    paths.into_iter().map(|path| absolute(&path, module)).collect()
}

/// The module that a file is, by its path below `src/`: `store/item.rs` is `crate::store::item`.
pub(crate) fn module_of(file: &Path) -> Vec<String> {
    let mut module = vec!["crate".to_owned()];
    module.extend(file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()));
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Walks tokens and records every maximal path; `prefix` is what stands before a group of imports.
fn collect(tokens: TokenStream, prefix: &str, paths: &mut BTreeSet<String>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut is_renamed = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let is_test =
                    tokens.next_if(|next| is_group(next, Delimiter::Bracket)).is_some_and(
                        |attribute| attribute.to_string().replace(' ', "").contains("cfg(test)"),
                    );
                if is_test {
                    skip_item(&mut tokens);
                }
            }
            TokenTree::Group(group) => collect(group.stream(), "", paths),
            TokenTree::Ident(rename) if rename == "as" => is_renamed = true,
            TokenTree::Ident(first) => {
                let mut path = join(prefix, &first.to_string());
                let mut group: Option<Group> = None;
                // After `as`, a single word is a name of the file's own; a path is the type of a cast.
                let is_own_name = std::mem::take(&mut is_renamed);
                let mut is_path = false;
                while separator(&mut tokens) {
                    is_path = true;
                    match tokens.next() {
                        Some(TokenTree::Ident(segment)) => path = join(&path, &segment.to_string()),
                        Some(TokenTree::Group(inner)) => group = Some(inner),
                        // `use a::*`, or a turbofish: the path ends before it.
                        _ => break,
                    }
                }
                match group {
                    Some(group) => collect(group.stream(), &path, paths),
                    None if is_own_name && !is_path => {}
                    None => {
                        paths.insert(path);
                    }
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

type Tokens = std::iter::Peekable<proc_macro2::token_stream::IntoIter>;

/// Takes a `::`, if one is next.
fn separator(tokens: &mut Tokens) -> bool {
    let colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    // A single colon (`name: Type`) is joined to nothing; only `::` comes as a joint pair.
    let joint = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == proc_macro2::Spacing::Joint);
    tokens.next_if(joint).is_some() && tokens.next_if(colon).is_some()
}

/// Skips the item after an attribute: up to its body or its semicolon.
fn skip_item(tokens: &mut Tokens) {
    for token in tokens.by_ref() {
        let ends = is_group(&token, Delimiter::Brace)
            || matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ';');
        if ends {
            return;
        }
    }
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn join(path: &str, segment: &str) -> String {
    if path.is_empty() { segment.to_owned() } else { format!("{path}::{segment}") }
}

/// A path with `self` and `super` at its front resolved against a module.
fn absolute(path: &str, module: &[String]) -> String {
    let mut segments: Vec<&str> = path.split("::").collect();
    let mut base: Vec<&str> = module.iter().map(String::as_str).collect();
    if !matches!(segments[0], "self" | "super") {
        return path.to_owned();
    }
    while let Some(&("self" | "super")) = segments.first() {
        if segments.remove(0) == "super" {
            base.pop();
        }
    }
    base.into_iter().chain(segments).collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_module(source: &str, module: &str) -> Vec<String> {
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        named_paths(source, &module).into_iter().filter(|path| path.contains("::")).collect()
    }

    #[test]
    fn a_group_of_imports_names_each_of_them() {
        let source = "use std::{fmt, net::{TcpStream, SocketAddr as Address}};";
        let found = in_module(source, "crate");
        assert_eq!(found, ["std::fmt", "std::net::SocketAddr", "std::net::TcpStream"]);
    }

    #[test]
    fn relative_paths_are_resolved_against_the_module() {
        let source =
            "use super::log::Entry; fn f() { self::inner::g(); super::super::clock::now() }";
        let found = in_module(source, "crate::store::item");
        assert_eq!(
            found,
            ["crate::clock::now", "crate::store::item::inner::g", "crate::store::log::Entry"]
        );
    }

    #[test]
    fn a_path_inside_a_macro_is_seen() {
        let source = r#"fn f() { tracing::debug!("{}", http::StatusCode::OK); }"#;
        assert_eq!(in_module(source, "crate"), ["http::StatusCode::OK", "tracing::debug"]);
    }

    #[test]
    fn a_cast_names_its_type_and_a_rename_names_nothing() {
        let source = "use a::b as c; fn f(x: &X) { g(x as &dyn http::Body, x as http::Code) }";
        assert_eq!(in_module(source, "crate"), ["a::b", "http::Body", "http::Code"]);
    }

    #[test]
    fn tests_may_know_anything() {
        let source =
            "#[cfg(test)] mod tests { use hyper::Request; } #[cfg(test)] use http::Uri; use a::b;";
        assert_eq!(in_module(source, "crate"), ["a::b"]);
    }

    #[test]
    fn a_file_is_the_module_of_its_path() {
        assert_eq!(module_of(Path::new("store/item.rs")).join("::"), "crate::store::item");
        assert_eq!(module_of(Path::new("store/mod.rs")).join("::"), "crate::store");
        assert_eq!(module_of(Path::new("lib.rs")).join("::"), "crate");
    }
}
