//! Runs a fuzz target as an ordinary test: its corpus, then a bounded run of mutated inputs.
//!
//! The generator is seeded, so a failure repeats; the input that failed is printed before the
//! panic goes on.

use std::path::Path;

/// The longest input a mutation grows to.
const LONGEST: usize = 4096;

/// Bytes that separate, quote, nest or sign things in the formats under test.
const TELLING: &[u8] = b"\0\x1f %&'\"\\/#:,;=-+.*@?{}[]()0189azAZ\x7f\x80\xc3\xe9\xf0\xff";

/// Feeds `target` every file of `corpus_dir`, then `random_inputs` mutations of them.
///
/// Panics if the corpus is missing: a target without examples would explore little.
pub fn run(
    target_name: &str,
    target: fn(&[u8]),
    corpus_dir: &Path,
    random_inputs: usize,
    seed: u64,
) {
    let corpus = corpus(corpus_dir);
    assert!(!corpus.is_empty(), "{target_name}: no corpus in {}", corpus_dir.display());
    for input in &corpus {
        attempt(target_name, target, input);
    }
    let mut random = Random(seed);
    for _ in 0..random_inputs {
        let input = mutate(&corpus, &mut random);
        attempt(target_name, target, &input);
    }
}

fn corpus(directory: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort(); // The directory's own order differs between machines.
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn attempt(target_name: &str, target: fn(&[u8]), input: &[u8]) {
    let report = Report { target_name, input };
    target(input);
    std::mem::forget(report);
}

/// Names the input when a panic unwinds past it.
struct Report<'a> {
    target_name: &'a str,
    input: &'a [u8],
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        eprintln!("{} failed on \"{}\"", self.target_name, self.input.escape_ascii());
    }
}

fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let to = at + random.below(input.len() - at + 1);
        match random.below(7) {
            0 => drop(input.drain(at..to)),
            1 => input.insert(at, random.next() as u8),
            2 => input.insert(at, TELLING[random.below(TELLING.len())]),
            3 if at < input.len() => input[at] ^= 1 << random.below(8),
            4 if at < input.len() => input[at] = TELLING[random.below(TELLING.len())],
            5 => {
                let piece = input[at..to].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                input.splice(at..to, other[from..].iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
    input
}

/// SplitMix64: small, seeded, good enough to wander with.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number less than `bound`, which is at least one.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
