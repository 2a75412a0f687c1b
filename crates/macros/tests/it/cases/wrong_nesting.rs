use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct Inner {
    number: Option<u32>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct NestedWithEnv {
    #[option(nested, env = "AZURE_COSMOS_INNER")]
    inner: Option<Inner>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct NestedWithDefault {
    #[option(nested, default = Inner::default())]
    inner: Option<Inner>,
}

fn main() {}
