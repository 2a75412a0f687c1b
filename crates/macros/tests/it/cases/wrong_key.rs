use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct UnknownKeys {
    #[option(environment = "AZURE_COSMOS_NUMBER")]
    number: Option<u32>,
    #[option(merge = "append")]
    list: Option<Vec<u32>>,
    #[option(alias = "AZURE_COSMOS_OTHER")]
    other: Option<u32>,
    #[option(env = "azure.cosmos.timeout")]
    timeout: Option<u32>,
    #[option(env = "AZURE_COSMOS_TWICE", env = "AZURE_COSMOS_TWICE_MORE")]
    twice: Option<u32>,
    #[option(merge = "extend", default = vec![1])]
    merged_with_default: Option<Vec<u32>>,
}

fn main() {}
