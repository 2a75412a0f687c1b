//! An order that no partition range can stream, such as that of a vector's distance: every range is read to its
//! end, and the first rows of all are kept.

use serde_json::Value;
use sidereal_protocol::{QueryInfo, SortOrder};
use sidereal_query::merge::Position;

use super::fan_out::{FanOut, FanOutEvent};
use super::limits::QueryLimits;
use super::page::PageFacts;
use crate::{Error, ErrorKind, Result};

/// The state of such a query.
#[derive(Debug)]
pub(super) struct TopRows {
    fan_out: FanOut,
    kept: Kept,
    /// The result, once it is known.
    sorted: Option<std::vec::IntoIter<Value>>,
}

impl TopRows {
    pub(super) fn new(fan_out: FanOut, info: &QueryInfo, limits: &QueryLimits) -> Self {
        Self { fan_out, kept: Kept::new(info, limits), sorted: None }
    }

    /// The next rows, as many as fit on a page; none after the last.
    pub(super) async fn next_rows(
        &mut self,
        page_rows: usize,
        facts: &mut PageFacts,
    ) -> Result<Option<Vec<Value>>> {
        if self.sorted.is_none() {
            self.read_all(facts).await?;
            self.sorted = Some(self.kept.rows_sorted().into_iter());
        }
        let rows: Vec<Value> = self.sorted.iter_mut().flatten().take(page_rows).collect();
        Ok((!rows.is_empty()).then_some(rows))
    }

    async fn read_all(&mut self, facts: &mut PageFacts) -> Result<()> {
        (0..self.fan_out.lanes()).for_each(|lane| self.fan_out.need(lane));
        while (0..self.fan_out.lanes()).any(|lane| !self.fan_out.is_done(lane)) {
            match self.fan_out.next().await? {
                FanOutEvent::Page(lane) => {
                    let Some(page) = self.fan_out.take(lane) else { continue };
                    for row in page.rows.to_values()? {
                        self.kept.add(row)?;
                    }
                    facts.add(page.facts);
                }
                // Rows that came cannot be told from those of the successors, and none was given out.
                FanOutEvent::Gone { .. } => {
                    self.kept.rows.clear();
                    self.fan_out.restart().await?;
                    (0..self.fan_out.lanes()).for_each(|lane| self.fan_out.need(lane));
                }
            }
        }
        self.fan_out.stop();
        Ok(())
    }
}

/// The first rows of those that came.
#[derive(Debug)]
struct Kept {
    orders: Vec<SortOrder>,
    skip: usize,
    /// Rows that can be in the result; the others are dropped now and then.
    most: usize,
    is_bounded: bool,
    rows: Vec<(Position, Value)>,
}

impl Kept {
    fn new(info: &QueryInfo, limits: &QueryLimits) -> Self {
        let skip = info.offset.unwrap_or(0);
        let wanted = info.top.or(info.limit).map(|take| take.saturating_add(skip));
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        let is_bounded = wanted.is_some_and(|wanted| wanted <= limits.max_merged_rows);
        Self {
            orders: info.order_by.clone(),
            skip: usize::try_from(skip).unwrap_or(usize::MAX),
            most: wanted.unwrap_or(usize::MAX).min(limits.max_merged_rows),
            is_bounded,
            rows: Vec::new(),
        }
    }

    fn add(&mut self, mut row: Value) -> Result<()> {
        let unexpected = || {
            Error::new(
                ErrorKind::InvalidResponse,
                "a partition range answered with rows that do not fit the query's plan",
            )
        };
        let position = Position::of_row(&row).ok_or_else(unexpected)?;
        let payload = row.as_object_mut().and_then(|row| row.swap_remove("payload"));
        self.rows.push((position, payload.ok_or_else(unexpected)?));
        // Twice as many before they are sorted and cut: a sort for every row would cost too much.
        if self.is_bounded && self.rows.len() >= self.most.saturating_mul(2).max(1) {
            self.cut();
        }
        if !self.is_bounded && self.rows.len() > self.most {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the query needs more than {} rows in memory to sort them: give it a TOP or a LIMIT, or \
                     raise `QueryLimits::max_merged_rows`",
                    self.most
                ),
            ));
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.rows.sort_by(|(left, _), (right, _)| left.compare(right, &self.orders));
        self.rows.truncate(self.most);
    }

    fn rows_sorted(&mut self) -> Vec<Value> {
        self.cut();
        let rows = std::mem::take(&mut self.rows);
        rows.into_iter().skip(self.skip).map(|(_, payload)| payload).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(distance: i64) -> Value {
        json!({"_rid": "", "orderByItems": [{"item": distance}], "payload": distance})
    }

    fn kept(info: QueryInfo, max_merged_rows: usize) -> Kept {
        let info = QueryInfo { order_by: vec![SortOrder::Ascending], ..info };
        Kept::new(&info, &QueryLimits { max_merged_rows, ..QueryLimits::default() })
    }

    #[test]
    fn the_first_rows_of_all_are_kept() {
        let mut kept =
            kept(QueryInfo { offset: Some(1), limit: Some(2), ..QueryInfo::default() }, 10);
        for distance in [9, 4, 7, 1, 8, 2, 6, 3] {
            kept.add(row(distance)).unwrap();
            assert!(kept.rows.len() < 6);
        }
        assert_eq!(kept.rows_sorted(), [json!(2), json!(3)]);
    }

    #[test]
    fn without_a_window_the_rows_are_bounded() {
        let mut kept = kept(QueryInfo::default(), 2);
        kept.add(row(1)).unwrap();
        kept.add(row(2)).unwrap();
        let error = kept.add(row(3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains("max_merged_rows"), "{error}");
    }

    #[test]
    fn a_row_of_another_shape_is_refused() {
        let error = kept(QueryInfo::default(), 2).add(json!({"id": 1})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse);
    }
}
