use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(runtime, region))]
struct UnknownLayer {
    number: Option<u32>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(environment, account))]
struct TheEnvironmentIsImplicit {
    number: Option<u32>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(account, account))]
struct TheSameLayerTwice {
    number: Option<u32>,
}

#[derive(Debug, CosmosOptions)]
struct NoLayers {
    number: Option<u32>,
}

#[derive(Debug, CosmosOptions)]
#[options(levels(account))]
struct UnknownStructKey {
    number: Option<u32>,
}

fn main() {}
