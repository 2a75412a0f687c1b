//! The verdict: what was found in the account beside what had to be there.
//!
//! Pure. *Exactly once* is: every instance ended as completed with the output that follows from the seed, its history
//! says so once, every effect is there with its amount, and the service counted as many creates as there are effects.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::workload::Expected;

/// Sentences that are written out; the others are counted.
const MOST_SENTENCES: usize = 12;

/// The contents of the account after a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) instances: Vec<FoundInstance>,
    /// The instance of every event that says that an orchestration has completed.
    pub(crate) completions: Vec<String>,
    pub(crate) effects: Vec<FoundEffect>,
    pub(crate) receipts: Vec<FoundEffect>,
    /// Creates that the service answered with 201.
    pub(crate) effects_created: u64,
    pub(crate) receipts_created: u64,
    /// Creates that met their item: activities that were executed again.
    pub(crate) repeated: u64,
}

/// An orchestration as it is stored.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FoundInstance {
    #[serde(rename = "instanceId")]
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) output: Option<String>,
}

/// An item that an activity created.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FoundEffect {
    pub(crate) order: String,
    pub(crate) id: String,
    pub(crate) amount: u64,
}

/// Whether a run kept its promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) orchestrations: usize,
    pub(crate) effects: usize,
    /// Activities that were executed again, without another effect.
    pub(crate) repeated: u64,
    /// The differences from the expected contents, a sentence each.
    pub(crate) sentences: Vec<String>,
    /// How much is not as it must be.
    pub(crate) problems: usize,
}

impl Verdict {
    pub(crate) fn is_kept(&self) -> bool {
        self.problems == 0
    }

    /// The verdict in a sentence.
    pub(crate) fn summary(&self) -> String {
        let Self { orchestrations, effects, repeated, problems, .. } = self;
        match self.is_kept() {
            true => format!(
                "every one of {orchestrations} orchestrations completed exactly once, and each of their {effects} \
                 effects is there once ({repeated} activities were executed again, to no effect)"
            ),
            false => format!(
                "{problems} of what was found is not as it must be after {orchestrations} orchestrations with \
                 {effects} effects"
            ),
        }
    }
}

/// Compares what was found with what had to be.
pub(crate) fn judge(expected: &Expected, found: &Found) -> Verdict {
    let mut problems = Problems::default();
    judge_instances(&expected.instances, &found.instances, &mut problems);
    judge_completions(&expected.instances, &found.completions, &mut problems);
    judge_effects("effect", &expected.effects, &found.effects, &mut problems);
    judge_effects("receipt", &expected.receipts, &found.receipts, &mut problems);
    judge_creates("effects", expected.effects.len(), found.effects_created, &mut problems);
    judge_creates("receipts", expected.receipts.len(), found.receipts_created, &mut problems);
    Verdict {
        orchestrations: expected.instances.len(),
        effects: expected.effects.len() + expected.receipts.len(),
        repeated: found.repeated,
        sentences: problems.sentences,
        problems: problems.count,
    }
}

#[derive(Debug, Default)]
struct Problems {
    sentences: Vec<String>,
    count: usize,
}

impl Problems {
    fn add(&mut self, sentence: String) {
        self.count += 1;
        if self.sentences.len() < MOST_SENTENCES {
            self.sentences.push(sentence);
        }
    }
}

fn judge_instances(
    expected: &BTreeMap<String, String>,
    found: &[FoundInstance],
    problems: &mut Problems,
) {
    let by_id: BTreeMap<&str, &FoundInstance> =
        found.iter().map(|instance| (instance.id.as_str(), instance)).collect();
    for (id, output) in expected {
        match by_id.get(id.as_str()) {
            None => problems.add(format!("{id} was started and is not there")),
            Some(it) if it.status != "Completed" => {
                let output = it.output.as_deref().unwrap_or("nothing");
                problems.add(format!("{id} is {} and says {output}", it.status));
            }
            Some(it) if it.output.as_ref() != Some(output) => {
                let said = it.output.as_deref().unwrap_or("nothing");
                problems.add(format!("{id} must have the output {output} and has {said}"));
            }
            Some(_) => {}
        }
    }
    for instance in found.iter().filter(|instance| !expected.contains_key(&instance.id)) {
        problems.add(format!("{} was never started and is there", instance.id));
    }
}

fn judge_completions(
    expected: &BTreeMap<String, String>,
    found: &[String],
    problems: &mut Problems,
) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for id in found {
        *times.entry(id).or_default() += 1;
    }
    for id in expected.keys() {
        match times.get(id.as_str()).copied().unwrap_or_default() {
            1 => {}
            0 => problems.add(format!("the history of {id} does not say that it completed")),
            times => {
                problems.add(format!("the history of {id} says {times} times that it completed"));
            }
        }
    }
}

fn judge_effects(
    word: &str,
    expected: &BTreeMap<(String, String), u64>,
    found: &[FoundEffect],
    problems: &mut Problems,
) {
    let mut seen: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for it in found {
        let times = seen.entry((&it.order, &it.id)).or_default();
        *times += 1;
        let (order, id) = (&it.order, &it.id);
        match expected.get(&(order.clone(), id.clone())) {
            _ if *times > 1 => problems.add(format!("the {word} {order}/{id} is there twice")),
            None => {
                problems.add(format!("the {word} {order}/{id} is there, and nothing does that"));
            }
            Some(amount) if *amount != it.amount => problems.add(format!(
                "the {word} {order}/{id} must be worth {amount} and is worth {}",
                it.amount
            )),
            Some(_) => {}
        }
    }
    for (order, id) in expected.keys() {
        if !seen.contains_key(&(order.as_str(), id.as_str())) {
            problems.add(format!("the {word} {order}/{id} is missing"));
        }
    }
}

fn judge_creates(word: &str, expected: usize, created: u64, problems: &mut Problems) {
    if expected as u64 != created {
        problems.add(format!(
            "the service has created {created} items where there are {expected} {word} to create"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve orders, and what is found if all goes well.
    fn kept() -> (Expected, Found) {
        let expected = Expected::of(1, 12);
        let effect = |(key, amount): (&(String, String), &u64)| FoundEffect {
            order: key.0.clone(),
            id: key.1.clone(),
            amount: *amount,
        };
        let instance = |(id, output): (&String, &String)| FoundInstance {
            id: id.clone(),
            status: "Completed".to_owned(),
            output: Some(output.clone()),
        };
        let found = Found {
            instances: expected.instances.iter().map(instance).collect(),
            completions: expected.instances.keys().cloned().collect(),
            effects: expected.effects.iter().map(effect).collect(),
            receipts: expected.receipts.iter().map(effect).collect(),
            effects_created: expected.effects.len() as u64,
            receipts_created: 12,
            repeated: 3,
        };
        (expected, found)
    }

    /// The one sentence about something that was changed.
    fn sentence(change: impl FnOnce(&mut Found)) -> String {
        let (expected, mut found) = kept();
        change(&mut found);
        let mut verdict = judge(&expected, &found);
        assert!(!verdict.is_kept());
        assert_eq!(verdict.problems, 1, "{verdict:?}");
        verdict.sentences.remove(0)
    }

    #[test]
    fn a_run_that_left_what_it_had_to_is_kept() {
        let (expected, found) = kept();
        let verdict = judge(&expected, &found);
        assert!(verdict.is_kept(), "{verdict:?}");
        assert_eq!(verdict.repeated, 3);
        assert!(verdict.summary().contains("exactly once"), "{}", verdict.summary());
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = sentence(|found| drop(found.effects.remove(0)));
        assert_eq!(said, "the effect approval-00003/step-0 is missing");
        let said = sentence(|found| drop(found.instances.remove(0)));
        assert_eq!(said, "approval-00003 was started and is not there");
        let said = sentence(|found| drop(found.receipts.remove(0)));
        assert_eq!(said, "the receipt approval-00003/receipt is missing");
        let said = sentence(|found| drop(found.completions.remove(0)));
        assert_eq!(said, "the history of approval-00003 does not say that it completed");
    }

    #[test]
    fn what_is_there_twice_or_unasked_is_named() {
        let said = sentence(|found| found.effects.push(found.effects[0].clone()));
        assert_eq!(said, "the effect approval-00003/step-0 is there twice");
        let said = sentence(|found| found.completions.push("timer-00001".to_owned()));
        assert_eq!(said, "the history of timer-00001 says 2 times that it completed");
        let said = sentence(|found| {
            found
                .instances
                .push(FoundInstance { id: "ghost".to_owned(), ..found.instances[0].clone() });
        });
        assert_eq!(said, "ghost was never started and is there");
        let said = sentence(|found| found.effects_created += 1);
        assert!(said.starts_with("the service has created "), "{said}");
    }

    #[test]
    fn a_wrong_state_output_or_amount_is_named() {
        let said = sentence(|found| found.instances[0].status = "Running".to_owned());
        assert!(said.starts_with("approval-00003 is Running"), "{said}");
        let said = sentence(|found| found.instances[0].output = Some("0".to_owned()));
        assert!(said.ends_with("and has 0"), "{said}");
        let said = sentence(|found| found.effects[0].amount = 0);
        assert!(said.ends_with("and is worth 0"), "{said}");
    }

    #[test]
    fn a_run_that_left_nothing_is_told_in_a_bounded_number_of_sentences() {
        let (expected, _) = kept();
        let verdict = judge(&expected, &Found::default());
        assert_eq!(verdict.sentences.len(), MOST_SENTENCES);
        assert!(verdict.problems > 50, "{}", verdict.problems);
        assert!(!verdict.summary().contains("exactly once"));
    }
}
