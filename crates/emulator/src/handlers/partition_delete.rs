//! Deleting every item of a partition key.

use http::Method;
use sidereal_protocol::{CosmosStatus, ResourceLink};

use super::items::Progress;
use super::target::Target;
use super::{intended_container, place_of, required_key, unsupported};
use crate::account::Account;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Decided, ItemName, Position, WriteCondition};

/// `POST …/operations/partitionkeydelete`.
///
/// The service answers at once and deletes in the background, hiding the items meanwhile; here they are
/// gone with the answer.
pub(super) fn run(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    if incoming.method != Method::POST {
        return unsupported(&incoming.method);
    }
    let container = intended_container(account, incoming, link)?;
    let definition = container.definition();
    let key = required_key(incoming)?;
    let Target::Key(slice) = Target::of_key(&key, &container, &definition)? else {
        return Err(ServiceError::bad_request(
            "The partition key must be complete: its prefix does not name one logical partition.",
        ));
    };
    account.admit(&container, &slice.partition, incoming.now)?;
    let place = account.write_place(incoming, &slice.partition)?;
    let at = place_of(&definition, &key)?;
    let Decided { decision, partition, seen } =
        container.transact(&at, &definition, &place, |transaction| {
            let items = slice.items(transaction.replica(), Position::Start, incoming.now.seconds());
            let names: Vec<ItemName> = items.map(|item| item.name()).collect();
            let unconditional = WriteCondition::default();
            names.iter().try_for_each(|name| transaction.delete(name, &unconditional).map(drop))
        });
    decision?;
    account.spend(&partition, incoming.now, charge::MINIMUM);
    let progress = Progress { incoming, container: &container, partition: &partition, seen };
    Ok(progress.stamp(Reply::empty(CosmosStatus::OK)))
}
