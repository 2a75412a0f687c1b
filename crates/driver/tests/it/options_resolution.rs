//! A view answers as a plain resolver does, for any assignment of values to layers.
//!
//! The reference keeps a list of layers per setting and knows nothing of groups or views: the highest
//! layer that has a value wins, maps are merged from below, and a nested setting is a setting.

use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use sidereal_driver::CosmosOptions;
use sidereal_driver::options::{Layer, Source};

#[derive(Clone, Debug, CosmosOptions)]
#[options(layers(runtime, account, operation))]
struct OuterOptions {
    number: Option<u32>,
    #[option(default = 7)]
    number_with_default: Option<u32>,
    text: Option<String>,
    #[option(default = "fallback".to_owned())]
    text_with_default: Option<String>,
    #[option(merge = "extend")]
    entries: Option<BTreeMap<u8, u8>>,
    #[option(nested)]
    inner: Option<InnerOptions>,
}

#[derive(Clone, Debug, CosmosOptions)]
#[options(layers(runtime, account, operation))]
struct InnerOptions {
    flag: Option<bool>,
    #[option(default = -1)]
    number_with_default: Option<i64>,
}

fn inner() -> impl Strategy<Value = InnerOptions> {
    (option::of(any::<bool>()), option::of(any::<i64>()))
        .prop_map(|(flag, number_with_default)| InnerOptions { flag, number_with_default })
}

fn outer() -> impl Strategy<Value = OuterOptions> {
    (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of("[a-z]{0,3}"),
        option::of("[a-z]{0,3}"),
        option::of(btree_map(0..6_u8, any::<u8>(), 0..4)),
        option::of(inner()),
    )
        .prop_map(|(number, number_with_default, text, text_with_default, entries, inner)| {
            OuterOptions { number, number_with_default, text, text_with_default, entries, inner }
        })
}

const LOWEST_FIRST: [Layer; 4] =
    [Layer::Environment, Layer::Runtime, Layer::Account, Layer::Operation];

/// The value of the highest layer that has one, and that layer.
fn reference<T: Clone>(lowest_first: &[Option<T>; 4]) -> Option<(Layer, T)> {
    let mut answer = None;
    for (layer, value) in LOWEST_FIRST.into_iter().zip(lowest_first) {
        if let Some(value) = value {
            answer = Some((layer, value.clone()));
        }
    }
    answer
}

fn source_of(view: &OuterOptionsView<'_>, name: &str) -> Source {
    let row = view.settings().into_iter().find(|setting| setting.name == name);
    row.expect("every setting has a row").source
}

fn expected_source<T>(answer: Option<&(Layer, T)>, has_default: bool) -> Source {
    match answer {
        Some((layer, _)) => Source::Layer(*layer),
        None if has_default => Source::Default,
        None => Source::Unset,
    }
}

proptest! {
    #[test]
    fn shadowed_settings_resolve_as_the_reference_does(
        layers in [outer(), outer(), outer(), outer()]
    ) {
        let [environment, runtime, account, operation] = &layers;
        let view = OuterOptionsView::new(environment, runtime, account, operation);

        let number = reference(&layers.clone().map(|layer| layer.number));
        prop_assert_eq!(view.number(), number.map(|(_, value)| value));
        prop_assert_eq!(source_of(&view, "number"), expected_source(number.as_ref(), false));

        let number = reference(&layers.clone().map(|layer| layer.number_with_default));
        prop_assert_eq!(view.number_with_default(), number.map_or(7, |(_, value)| value));
        prop_assert_eq!(source_of(&view, "number_with_default"), expected_source(number.as_ref(), true));

        let text = reference(&layers.clone().map(|layer| layer.text));
        prop_assert_eq!(view.text(), text.as_ref().map(|(_, value)| value));
        prop_assert_eq!(source_of(&view, "text"), expected_source(text.as_ref(), false));

        let text = reference(&layers.clone().map(|layer| layer.text_with_default));
        let fallback = "fallback".to_owned();
        prop_assert_eq!(view.text_with_default(), text.as_ref().map_or(&fallback, |(_, value)| value));
        prop_assert_eq!(source_of(&view, "text_with_default"), expected_source(text.as_ref(), true));
    }

    #[test]
    fn merged_settings_take_each_key_from_the_highest_layer_that_has_it(
        layers in [outer(), outer(), outer(), outer()]
    ) {
        let [environment, runtime, account, operation] = &layers;
        let view = OuterOptionsView::new(environment, runtime, account, operation);
        let maps = layers.clone().map(|layer| layer.entries);
        let mut expected = BTreeMap::new();
        for key in 0..6 {
            let candidates = maps.clone().map(|map| map.and_then(|map| map.get(&key).copied()));
            if let Some((_, value)) = reference(&candidates) {
                expected.insert(key, value);
            }
        }
        prop_assert_eq!(view.entries(), expected);

        let set: Vec<Layer> = LOWEST_FIRST
            .into_iter()
            .zip(&maps)
            .filter_map(|(layer, map)| map.is_some().then_some(layer))
            .collect();
        let source = match set.as_slice() {
            [] => Source::Unset,
            [one] => Source::Layer(*one),
            _ => Source::Merged(set),
        };
        prop_assert_eq!(source_of(&view, "entries"), source);
    }

    #[test]
    fn nested_settings_resolve_as_if_they_were_not_nested(
        layers in [outer(), outer(), outer(), outer()]
    ) {
        let [environment, runtime, account, operation] = &layers;
        let view = OuterOptionsView::new(environment, runtime, account, operation);

        let flag = reference(&layers.clone().map(|layer| layer.inner.and_then(|inner| inner.flag)));
        prop_assert_eq!(view.inner().flag(), flag.map(|(_, value)| value));
        prop_assert_eq!(source_of(&view, "inner.flag"), expected_source(flag.as_ref(), false));

        let number =
            reference(&layers.clone().map(|layer| layer.inner.and_then(|inner| inner.number_with_default)));
        prop_assert_eq!(view.inner().number_with_default(), number.map_or(-1, |(_, value)| value));
    }
}
