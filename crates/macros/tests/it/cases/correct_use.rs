use std::collections::BTreeMap;
use std::time::Duration;

use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account, runtime))]
struct Options {
    #[option(env = "AZURE_COSMOS_A", alias = "AZURE_COSMOS_B", alias = "AZURE_COSMOS_C", default = 3)]
    number: Option<u32>,
    #[option(env = "AZURE_COSMOS_D_MS")]
    time: Option<Duration>,
    #[option(merge = "extend")]
    entries: Option<BTreeMap<String, String>>,
    #[option(nested)]
    inner: Option<Inner>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(runtime, account))]
struct Inner {
    flag: Option<bool>,
}

fn main() {
    let lowest = Options::default().with_number(1).with_time(Duration::from_secs(1));
    let inner = Inner::default().with_flag(true);
    let highest = Options::default().with_inner(inner).with_entries(BTreeMap::new());
    let view = OptionsView::new(&lowest, &Options::default(), &highest).settings();
    assert_eq!(view.len(), 4);
}
