//! `rustc` on a single file, against the libraries that this test was built with.
//!
//! A harness that runs cargo again builds the driver and all its dependencies a second time, in a
//! directory of its own. The libraries are there already.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that the cases name; it re-exports the derive.
const LIBRARY: &str = "libsidereal_driver-";

pub(crate) struct Compiler {
    library: PathBuf,
    dependencies: PathBuf,
}

impl Compiler {
    /// The compiler with the library of the current build.
    ///
    /// Builds with other features leave their own copies in the same directory. The newest one was
    /// compiled from the sources as they are: had they changed since, cargo would have rebuilt the copy
    /// that this test links, and that one would be newer.
    pub(crate) fn of_this_build() -> Self {
        let executable = env::current_exe().unwrap();
        let dependencies = executable.parent().unwrap().to_path_buf();
        let library = fs::read_dir(&dependencies)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| is_library(&entry.file_name()))
            .max_by_key(|entry| entry.metadata().unwrap().modified().unwrap())
            .expect("the driver is a dev-dependency, so it was built before this test")
            .path();
        Self { library, dependencies }
    }

    /// Checks a program without generating code; the errors if it does not compile.
    pub(crate) fn check(&self, source: &Path) -> Result<(), String> {
        let target = self.output_of(source, "rmeta");
        result(&self.compile(source, "metadata", &target))
    }

    /// Compiles a program and runs it.
    pub(crate) fn run(&self, source: &Path) -> Result<(), String> {
        let target = self.output_of(source, "bin");
        result(&self.compile(source, "link", &target))?;
        result(&Command::new(&target).output().unwrap())
    }

    fn compile(&self, source: &Path, emit: &str, target: &Path) -> Output {
        // Cargo names its own compiler; a test binary that is run by hand takes the one on the path.
        Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition", "2024", "--crate-type", "bin", "--color", "never"])
            .args(["--emit", emit])
            .arg("-L")
            .arg(format!("dependency={}", self.dependencies.display()))
            .arg("--extern")
            .arg(format!("sidereal_driver={}", self.library.display()))
            .arg("-o")
            .args([target, source])
            .output()
            .unwrap()
    }

    fn output_of(&self, source: &Path, extension: &str) -> PathBuf {
        let name = source.file_stem().unwrap().to_string_lossy();
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{extension}"))
    }
}

fn is_library(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(LIBRARY) && name.ends_with(".rlib")
}

fn result(output: &Output) -> Result<(), String> {
    match output.status.success() {
        true => Ok(()),
        false => Err(without_summary(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// The errors without the lines that count them: those say nothing that the errors do not.
fn without_summary(errors: &str) -> String {
    let is_summary = |line: &&str| {
        line.starts_with("error: aborting due to") || line.starts_with("For more information about")
    };
    let kept: Vec<&str> = errors.lines().filter(|line| !is_summary(line)).collect();
    kept.join("\n").trim_end().to_owned() + "\n"
}
