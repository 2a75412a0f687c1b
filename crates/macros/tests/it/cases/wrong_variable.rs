use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct SharedVariables {
    #[option(env = "AZURE_COSMOS_ONE")]
    one: Option<u32>,
    #[option(env = "AZURE_COSMOS_ONE")]
    another: Option<u32>,
    #[option(env = "AZURE_COSMOS_TWO", alias = "AZURE_COSMOS_ONE")]
    third: Option<u32>,
}

fn main() {}
