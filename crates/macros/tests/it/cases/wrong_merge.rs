use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct CannotExtend {
    #[option(merge = "extend")]
    number: Option<u32>,
}

fn main() {}
