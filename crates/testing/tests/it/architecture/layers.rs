//! The modules of a crate as layers: which import each other in a circle, and how large the knots of files are.
//!
//! A path counts as an import of the module in which its item is defined, however many re-exports it goes
//! through: a `pub(crate) use` in a root or a `mod.rs` hides nothing. A module may name what is below it in the
//! tree of modules (its table of contents does little else), so that is no import. Code under `#[cfg(test)]` is
//! left out, because tests may know anything.
//!
//! Tokens are enough for that, and see what a syntax tree does not: the arguments of macros.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A path of a source, split at `::`.
type Names = Vec<String>;

/// A chain of re-exports that is longer than this one is itself a circle.
const MAX_RE_EXPORTS: usize = 16;

/// The modules of one crate and the paths that they name.
#[derive(Default)]
pub(crate) struct Modules {
    modules: BTreeMap<Names, Module>,
}

/// One module: a file, or a `mod name { … }` within one.
#[derive(Default)]
struct Module {
    /// The module that is the file.
    file: Names,
    /// Imported and re-exported names, with their paths as written.
    bindings: BTreeMap<String, Names>,
    /// The paths of glob imports.
    globs: Vec<Names>,
    /// The items that the module defines.
    items: BTreeSet<String>,
    /// The paths that are named, other than by re-exports.
    paths: BTreeSet<Names>,
    /// The paths of re-exports.
    re_exports: BTreeSet<Names>,
}

/// Modules or files that reach each other by imports.
#[derive(Debug)]
pub(crate) struct Knot {
    pub(crate) members: Vec<String>,
    /// The imports that tie them, each as "from names path".
    imports: Vec<String>,
}

impl fmt::Display for Knot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.members.join(", "))?;
        self.imports.iter().try_for_each(|import| write!(f, "\n    {import}"))
    }
}

/// The imports between nodes (modules or files), each with one path that shows it.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

impl Modules {
    /// Reads the sources below a crate's `src`.
    pub(crate) fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        read_files(src, src, &mut files);
        Self::parse(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
    }

    /// Parses files given as their path below `src` and their text.
    pub(crate) fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut parser = Parser::default();
        for (path, text) in files {
            let module = module_of(path);
            let tokens: TokenStream =
                text.parse().expect("a source that compiles has valid tokens");
            parser.file = module.clone();
            parser.module(tokens, module);
        }
        let Parser { mut modules, tests, .. } = parser;
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { modules }
    }

    /// The top-level modules that import each other in a circle.
    ///
    /// The root is one of them by what it does itself; what it re-exports it does not import.
    pub(crate) fn circles(&self) -> Vec<Knot> {
        let top = |module: &[String]| module.get(1).map_or("(root)", String::as_str).to_owned();
        self.knots_of(|from, to| {
            let is_root = from.len() == 1;
            (is_root || to.len() == 1 || from[1] != to[1]).then(|| (top(from), top(to)))
        })
    }

    /// The files that import each other in a circle.
    pub(crate) fn knots(&self) -> Vec<Knot> {
        self.knots_of(|from, to| (!to.starts_with(from)).then(|| (from.join("::"), to.join("::"))))
    }

    /// The knots of the graph whose edges are named by `edge`, for a file and the file that it imports.
    fn knots_of(
        &self,
        edge: impl Fn(&[String], &[String]) -> Option<(String, String)>,
    ) -> Vec<Knot> {
        let mut graph = Graph::new();
        for (name, module) in &self.modules {
            // A module re-exports from below it; from anywhere else a re-export is an import like any other.
            let re_exports = module.re_exports.iter().filter(|path| {
                self.definition(name, path).is_some_and(|found| !found.starts_with(name))
            });
            for path in module.paths.iter().chain(re_exports) {
                let Some(defined) = self.definition(name, path) else { continue };
                let target = &self.modules[&defined].file;
                if *target == module.file {
                    continue;
                }
                if let Some((from, to)) = edge(&module.file, target).filter(|(from, to)| from != to)
                {
                    let shown = format!("{} names {}", module.file.join("::"), path.join("::"));
                    graph.entry(from).or_default().entry(to).or_insert(shown);
                }
            }
        }
        knots_in(&graph)
    }

    /// The module that defines what a path names, if that is in this crate.
    fn definition(&self, module: &Names, path: &[String]) -> Option<Names> {
        self.resolve(module, path, MAX_RE_EXPORTS)
    }

    fn resolve(&self, module: &Names, path: &[String], hops: usize) -> Option<Names> {
        let hops = hops.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let mut base = module.clone();
        let mut rest = rest;
        match first.as_str() {
            "crate" => base.truncate(1),
            "self" => {}
            "super" => {
                base.pop();
                while let Some(("super", below)) =
                    rest.split_first().map(|(first, below)| (first.as_str(), below))
                {
                    base.pop();
                    rest = below;
                }
            }
            // A name of the module itself; any other first name is another crate's.
            _ => return self.descend(module, path, hops).filter(|_| self.knows(module, first)),
        }
        self.descend(&base, rest, hops)
    }

    /// Follows a path downwards from a module, through re-exports.
    fn descend(&self, module: &Names, path: &[String], hops: usize) -> Option<Names> {
        let known = self.modules.get(module)?;
        let Some((first, rest)) = path.split_first() else { return Some(module.clone()) };
        let mut child = module.clone();
        child.push(first.clone());
        if self.modules.contains_key(&child) {
            return self.descend(&child, rest, hops);
        }
        if let Some(target) = known.bindings.get(first) {
            // A name may be bound to itself, as `use log;` does: that is another crate.
            if target.first() != Some(first) {
                let longer: Names = target.iter().chain(rest).cloned().collect();
                return self.resolve(module, &longer, hops);
            }
        }
        if known.items.contains(first) {
            return Some(module.clone());
        }
        let from_glob = known.globs.iter().find_map(|glob| {
            let origin = self.resolve(module, glob, hops)?;
            self.knows(&origin, first).then(|| self.descend(&origin, path, hops)).flatten()
        });
        Some(from_glob.unwrap_or_else(|| module.clone()))
    }

    /// Whether a module binds or defines a name, or has a module of that name below it.
    fn knows(&self, module: &Names, name: &str) -> bool {
        let mut child = module.clone();
        child.push(name.to_owned());
        self.modules.contains_key(&child)
            || self.modules.get(module).is_some_and(|known| {
                known.bindings.contains_key(name) || known.items.contains(name)
            })
    }
}

/// The strongly connected components of more than one node.
fn knots_in(graph: &Graph) -> Vec<Knot> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|node| (node.as_str(), reachable_from(graph, node))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|it| it.contains(to));
    let mut knots = Vec::new();
    let mut placed = BTreeSet::new();
    for node in graph.keys() {
        if !reaches(node, node) || !placed.insert(node.as_str()) {
            continue;
        }
        let members: Vec<String> = graph
            .keys()
            .filter(|other| reaches(node, other) && reaches(other, node))
            .cloned()
            .collect();
        placed.extend(graph.keys().filter(|it| members.contains(it)).map(String::as_str));
        let imports = members.iter().flat_map(|from| &graph[from]);
        let imports = imports.filter(|(to, _)| members.contains(to));
        knots.push(Knot { imports: imports.map(|(_, shown)| shown.clone()).collect(), members });
    }
    knots
}

fn reachable_from<'a>(graph: &'a Graph, start: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&str> = graph[start].keys().map(String::as_str).collect();
    while let Some(node) = pending.pop() {
        if found.insert(node) {
            pending.extend(
                graph.get(node).into_iter().flat_map(|next| next.keys().map(String::as_str)),
            );
        }
    }
    found
}

fn read_files(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder that was opened can be read").path();
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            read_files(root, &path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let below = path.strip_prefix(root).expect("it was found below the root");
            let text = fs::read_to_string(&path).expect("a source is text");
            files.push((below.to_string_lossy().into_owned(), text));
        }
    }
}

/// The module that a file is, by its path below `src`: `store/item.rs` is `crate::store::item`.
fn module_of(file: &str) -> Names {
    let mut module = vec!["crate".to_owned()];
    module.extend(file.trim_end_matches(".rs").split('/').map(str::to_owned));
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    module
}

/// Collects the modules, items and paths of a crate's files.
#[derive(Default)]
struct Parser {
    file: Names,
    modules: BTreeMap<Names, Module>,
    /// The modules that are compiled for tests alone.
    tests: BTreeSet<Names>,
}

impl Parser {
    fn module(&mut self, tokens: TokenStream, name: Names) {
        let module = self.modules.entry(name.clone()).or_default();
        module.file = self.file.clone();
        self.items(tokens, &name);
    }

    fn items(&mut self, tokens: TokenStream, name: &Names) {
        let mut tokens = Tokens::of(tokens);
        let mut is_for_tests = false;
        let mut is_public = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    is_for_tests |= tokens.attribute_is_for_tests();
                }
                TokenTree::Ident(ident) if ident == "pub" => {
                    is_public = true;
                    tokens.skip_group(Delimiter::Parenthesis);
                }
                _ if is_for_tests => {
                    if let Some(child) = tokens.skip_item(token) {
                        let mut tested = name.clone();
                        tested.push(child);
                        self.tests.insert(tested);
                    }
                    (is_for_tests, is_public) = (false, false);
                }
                TokenTree::Ident(ident) if ident == "use" => {
                    let mut imports = Vec::new();
                    tokens.imports(&[], &mut imports);
                    self.imports(imports, name, is_public);
                    is_public = false;
                }
                TokenTree::Ident(ident) if ident == "mod" => {
                    is_public = false;
                    let Some(child) = tokens.ident() else { continue };
                    if let Some(body) = tokens.group(Delimiter::Brace) {
                        let mut inline = name.clone();
                        inline.push(child);
                        self.module(body, inline);
                    }
                }
                TokenTree::Ident(ident) => {
                    let word = ident.to_string();
                    is_public &= matches!(word.as_str(), "unsafe" | "async" | "const" | "extern");
                    let is_item = matches!(
                        word.as_str(),
                        "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                    );
                    if is_item && let Some(TokenTree::Ident(item)) = tokens.peek() {
                        let item = item.to_string();
                        self.known(name).items.insert(item);
                        continue;
                    }
                    let path = tokens.path(word);
                    if path.len() > 1 {
                        self.known(name).paths.insert(path);
                    }
                }
                TokenTree::Group(group) => self.items(group.stream(), name),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn imports(&mut self, imports: Vec<Import>, name: &Names, is_public: bool) {
        let module = self.known(name);
        for Import { path, bound } in imports {
            let named = if is_public { &mut module.re_exports } else { &mut module.paths };
            // An import of something of the module's own is bound, and imports nothing.
            named.insert(path.clone());
            match bound.as_str() {
                "*" => module.globs.push(path),
                _ => drop(module.bindings.insert(bound, path)),
            }
        }
    }

    fn known(&mut self, name: &Names) -> &mut Module {
        self.modules.get_mut(name).expect("a module is entered before it is read")
    }
}

/// One name that a `use` brings in.
struct Import {
    path: Names,
    /// The name it is bound to; `*` for all of a module.
    bound: String,
}

/// Tokens with one of look-ahead.
struct Tokens(std::iter::Peekable<proc_macro2::token_stream::IntoIter>);

impl Tokens {
    fn of(tokens: TokenStream) -> Self {
        Self(tokens.into_iter().peekable())
    }

    fn next(&mut self) -> Option<TokenTree> {
        self.0.next()
    }

    fn peek(&mut self) -> Option<&TokenTree> {
        self.0.peek()
    }

    fn group(&mut self, delimiter: Delimiter) -> Option<TokenStream> {
        let is_it = |it: &TokenTree| matches!(it, TokenTree::Group(group) if group.delimiter() == delimiter);
        match self.0.next_if(is_it)? {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        }
    }

    fn skip_group(&mut self, delimiter: Delimiter) {
        drop(self.group(delimiter));
    }

    fn punct(&mut self, wanted: char) -> bool {
        let is_it =
            |it: &TokenTree| matches!(it, TokenTree::Punct(punct) if punct.as_char() == wanted);
        self.0.next_if(is_it).is_some()
    }

    /// Takes a `::`. A single colon (`name: Type`) is joined to nothing; only `::` comes as a joint pair.
    fn separator(&mut self) -> bool {
        let is_first = |it: &TokenTree| matches!(it, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
        self.0.next_if(is_first).is_some() && self.punct(':')
    }

    fn ident(&mut self) -> Option<String> {
        match self.0.next_if(|it| matches!(it, TokenTree::Ident(_)))? {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        }
    }

    /// Takes what follows a `#`, and tells whether the next item is compiled for tests alone.
    fn attribute_is_for_tests(&mut self) -> bool {
        self.punct('!');
        let attribute = self.group(Delimiter::Bracket).map(|it| it.to_string().replace(' ', ""));
        attribute.is_some_and(|it| it.starts_with("cfg(test)") || it.starts_with("cfg(all(test,"))
    }

    /// Skips an item up to its body or its semicolon; the name of a module is returned.
    fn skip_item(&mut self, first: TokenTree) -> Option<String> {
        let is_module = matches!(&first, TokenTree::Ident(ident) if ident == "mod");
        let name = if is_module { self.ident() } else { None };
        while let Some(token) = self.next() {
            let ends = match &token {
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                TokenTree::Punct(punct) => punct.as_char() == ';',
                _ => false,
            };
            if ends {
                break;
            }
        }
        name
    }

    /// The rest of a path that begins with a name; a turbofish ends it.
    fn path(&mut self, first: String) -> Names {
        let mut path = vec![first];
        while self.separator() {
            let Some(next) = self.ident() else { break };
            path.push(next);
        }
        path
    }

    /// The imports of a `use`, up to its semicolon or the end of its group.
    fn imports(&mut self, prefix: &[String], imports: &mut Vec<Import>) {
        self.separator();
        let mut path = prefix.to_vec();
        let mut bound = None;
        let mut is_glob = false;
        while let Some(token) = self.next() {
            match token {
                TokenTree::Ident(ident) if ident == "as" => {
                    bound = self.next().map(|it| it.to_string());
                }
                TokenTree::Ident(ident) if ident == "self" && !path.is_empty() => {}
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Group(group) => {
                    Self::of(group.stream()).imports(&path, imports);
                    path.truncate(0);
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => is_glob = true,
                TokenTree::Punct(punct) if matches!(punct.as_char(), ',' | ';') => {
                    Self::import(std::mem::take(&mut path), bound.take(), is_glob, imports);
                    if punct.as_char() == ';' {
                        return;
                    }
                    path = prefix.to_vec();
                    is_glob = false;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if path.len() > prefix.len() || bound.is_some() || is_glob {
            Self::import(path, bound, is_glob, imports);
        }
    }

    fn import(path: Names, bound: Option<String>, is_glob: bool, imports: &mut Vec<Import>) {
        let Some(last) = path.last().cloned() else { return };
        let bound = if is_glob { "*".to_owned() } else { bound.unwrap_or(last) };
        imports.push(Import { path, bound });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The knots of top-level modules, each as its members.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let circles = Modules::parse(files.iter().copied()).circles();
        circles.iter().map(|knot| knot.members.join(" ")).collect()
    }

    fn knots(files: &[(&str, &str)]) -> Vec<String> {
        let knots = Modules::parse(files.iter().copied()).knots();
        knots.iter().map(|knot| knot.members.join(" ")).collect()
    }

    /// Module `a` imports from `b` as written; `b` imports from `a`.
    fn circle_of(import: &str) -> Vec<String> {
        circles(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", &format!("{import} pub(crate) struct A;")),
            ("b/mod.rs", "mod c; pub(crate) use c::C; pub(crate) fn f(a: &crate::a::A) {}"),
            ("b/c.rs", "pub(crate) struct C;"),
        ])
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        for import in [
            "use crate::b::C;",
            "use crate::b;",
            "use {std::fmt, crate::{b::{self as other, C}}};",
            "use super::b::C as Renamed;",
            "use crate::b::*;",
            "fn g() { crate::b::f(&A) }",
            "fn g() { debug!(\"{:?}\", crate::b::C) }",
            "fn g() { let x: super::b::C = make(); }",
            "pub use crate::b::C;",
            "mod inner { use super::super::b::C; }",
            "impl std::convert::From<crate::b::C> for A {}",
        ] {
            assert_eq!(circle_of(import), ["a b"], "{import}");
        }
        for harmless in
            ["use std::fmt;", "#[cfg(test)] mod tests { use crate::b::C; }", "use c::C;"]
        {
            assert_eq!(circle_of(harmless), [""; 0], "{harmless}");
        }
    }

    #[test]
    fn a_re_export_in_the_root_hides_no_circle() {
        let in_root = |root: &str, import: &str| {
            circles(&[
                ("lib.rs", root),
                ("a.rs", &format!("{import} pub struct A;")),
                ("b.rs", "use crate::a::A; pub struct B;"),
            ])
        };
        assert_eq!(in_root("mod a; mod b; pub use b::B;", "use crate::B;"), ["a b"]);
        assert_eq!(in_root("mod a; mod b; pub(crate) use b::*;", "use crate::B;"), ["a b"]);
        assert_eq!(
            in_root("mod a; mod b; pub(crate) use b::B as Other;", "fn f(_: crate::Other) {}"),
            ["a b"]
        );
        let facade = "mod a; mod b; pub mod names { pub use crate::b::B; }";
        assert_eq!(in_root(facade, "use crate::names::B;"), ["a b"]);
    }

    #[test]
    fn what_the_root_does_itself_is_an_import_of_the_root() {
        let logic = "mod a; pub(crate) fn f() { a::g() }";
        assert_eq!(
            circles(&[("lib.rs", logic), ("a.rs", "pub(crate) fn g() { crate::f() }")]),
            ["(root) a"]
        );
    }

    #[test]
    fn a_table_of_contents_is_in_no_knot() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; pub(crate) use b::B; pub(crate) use c::C;"),
            ("a/b.rs", "use super::C; pub(crate) struct B;"),
            ("a/c.rs", "pub(crate) struct C;"),
        ];
        assert_eq!(knots(&files), [""; 0]);
    }

    #[test]
    fn a_knot_of_files_is_found_through_the_re_exports_of_their_folder() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; mod d; pub(crate) use b::B; pub(crate) use c::C;"),
            ("a/b.rs", "use super::C; pub(crate) struct B;"),
            ("a/c.rs", "use super::d; fn f() { d::g() } pub(crate) struct C;"),
            ("a/d.rs", "use crate::a::B; pub(crate) fn g() {}"),
        ];
        assert_eq!(knots(&files), ["crate::a::b crate::a::c crate::a::d"]);
    }

    #[test]
    fn a_file_that_is_compiled_for_tests_alone_may_know_anything() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod model;"),
            ("a.rs", "#[cfg(all(test, feature = \"x\"))] mod laws; pub(crate) struct A;"),
            ("a/laws.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A; pub(crate) struct B;"),
            ("model.rs", "use crate::{a::A, b::B};"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }

    #[test]
    fn a_knot_says_which_imports_tie_it() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ];
        let knot = &Modules::parse(files).knots()[0];
        assert_eq!(
            knot.to_string(),
            "crate::a, crate::b\n    crate::a names crate::b::B\n    crate::b names crate::a::A"
        );
    }
}
