use sidereal_driver::CosmosOptions;

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct NotOptional {
    number: u32,
    list: Vec<String>,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
enum NotAStruct {
    One,
}

#[derive(Debug, CosmosOptions)]
#[options(layers(account))]
struct Generic<T> {
    value: Option<T>,
}

fn main() {}
