//! Deleting every item of a partition key.

use sidereal_protocol::CosmosStatus;

use super::items::{PartitionHeaders, effective_key_of};
use super::target::Target;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Decided, ItemName, WriteCondition};

/// `POST …/operations/partitionkeydelete`.
///
/// The service answers at once and deletes in the background, hiding the items meanwhile; here they are
/// gone with the response.
pub(crate) fn run(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let key = request.required_partition_key()?;
    let Target::Key(slice) = Target::of_key(&key, container, &definition)? else {
        return Err(ServiceError::bad_request(
            "The partition key must be complete: its prefix does not name one logical partition.",
        ));
    };
    account.admit(request, container, &slice.partition)?;
    let context = account.write_context(request, &slice.partition)?;
    let effective_key = effective_key_of(&definition, &key)?;
    let Decided { decision, partition, progress } =
        container.transact(&effective_key, &definition, &context, |transaction| {
            let items = slice.items(transaction.replica(), request.expiry());
            let names: Vec<ItemName> = items.iter().map(|item| item.name()).collect();
            let unconditional = WriteCondition::default();
            names.iter().try_for_each(|name| transaction.delete(name, &unconditional).map(drop))
        });
    decision?;
    account.spend(&partition, request.now, charge::MINIMUM);
    let headers = PartitionHeaders { request, container, partition: &partition, progress };
    Ok(headers.add_to(Reply::empty(CosmosStatus::OK)))
}
