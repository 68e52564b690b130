//! The queue of requests at one origin, and their order.
//!
//! Clients take turns: after each turn its client goes to the end of the row, so two waiting clients alternate, however
//! many requests one of them has sent. Within one client the order is first come, first served; but a crawler with a
//! longer crawl delay does not hold up another crawler of the same client.
//!
//! Pure: it knows neither time nor tasks.

use std::collections::VecDeque;

use super::Group;
use crate::client::ClientKey;

/// A waiting request.
#[derive(Debug)]
struct Waiter<T> {
    /// Its number in the order of arrival.
    number: u64,
    what: T,
}

/// The waiting requests of one client under one group of the robots.txt.
#[derive(Debug)]
struct GroupQueue<T> {
    group: Option<Group>,
    waiters: VecDeque<Waiter<T>>,
}

/// The waiting requests of one client.
#[derive(Debug)]
struct ClientQueue<T> {
    client: ClientKey,
    lines: Vec<GroupQueue<T>>,
}

/// All waiting requests at one origin.
#[derive(Debug)]
pub(super) struct Queue<T> {
    parties: VecDeque<ClientQueue<T>>,
    arrived: u64,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue {
            parties: VecDeque::new(),
            arrived: 0,
            len: 0,
        }
    }
}

impl<T> ClientQueue<T> {
    /// Returns the line with the earliest first request among the lines with a due first request.
    fn next_line(&self, is_due: &impl Fn(&T) -> bool) -> Option<usize> {
        let fronts = self.lines.iter().enumerate();
        let fronts = fronts.filter_map(|(at, line)| Some((at, line.waiters.front()?)));
        let due = fronts.filter(|(_, front)| is_due(&front.what));
        let first = due.min_by_key(|(_, front)| front.number);
        first.map(|(at, _)| at)
    }

    fn len(&self) -> usize {
        self.lines.iter().map(|line| line.waiters.len()).sum()
    }
}

impl<T> Queue<T> {
    /// Tells whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of waiting requests of one client.
    pub(super) fn len_of(&self, client: &ClientKey) -> usize {
        self.party(client).map_or(0, ClientQueue::len)
    }

    /// Returns the number of this client's requests that wait under the same group.
    pub(super) fn line_of(&self, client: &ClientKey, group: Option<&Group>) -> usize {
        let lines = self.party(client).map_or(&[][..], |party| &party.lines);
        let line = lines.iter().find(|line| line.group.as_ref() == group);
        line.map_or(0, |line| line.waiters.len())
    }

    /// Returns the number of turns before the next request of `client`, if the queue stays as it is: all of the
    /// client's own requests, and one of each other client for each round.
    pub(super) fn ahead_of(&self, client: &ClientKey) -> usize {
        let own = self.len_of(client);
        let others = self.parties.iter().filter(|party| party.client != *client);
        // A new client stands behind all clients in the row.
        let rounds = own + usize::from(own == 0);
        own + others.map(|party| party.len().min(rounds)).sum::<usize>()
    }

    /// Appends a request to its client's line and returns its number.
    pub(super) fn push(&mut self, client: &ClientKey, group: Option<&Group>, what: T) -> u64 {
        self.arrived += 1;
        let number = self.arrived;
        let waiter = Waiter { number, what };
        let known = self.parties.iter().any(|party| party.client == *client);
        if !known {
            self.parties.push_back(ClientQueue {
                client: client.clone(),
                lines: Vec::new(),
            });
        }
        let party = self
            .parties
            .iter_mut()
            .rfind(|party| party.client == *client);
        let Some(party) = party else { return number };
        self.len += 1;
        match party
            .lines
            .iter_mut()
            .find(|line| line.group.as_ref() == group)
        {
            Some(line) => line.waiters.push_back(waiter),
            None => party.lines.push(GroupQueue {
                group: group.cloned(),
                waiters: VecDeque::from([waiter]),
            }),
        }
        number
    }

    /// Returns the next request among those that `is_due` accepts, and its client.
    pub(super) fn next(&self, is_due: impl Fn(&T) -> bool) -> Option<(&ClientKey, &T)> {
        self.parties.iter().find_map(|party| {
            let line = party.next_line(&is_due)?;
            let waiter = party.lines.get(line)?.waiters.front()?;
            Some((&party.client, &waiter.what))
        })
    }

    /// Removes the next request among those that `is_due` accepts; its client goes to the end of the row.
    pub(super) fn pop(&mut self, is_due: impl Fn(&T) -> bool) -> Option<T> {
        let next = |party: &ClientQueue<T>| party.next_line(&is_due);
        let (at, line) = self
            .parties
            .iter()
            .enumerate()
            .find_map(|(at, party)| Some((at, next(party)?)))?;
        let mut party = self.parties.remove(at)?;
        let waiter = party.lines.get_mut(line)?.waiters.pop_front()?;
        self.len -= 1;
        party.lines.retain(|line| !line.waiters.is_empty());
        if !party.lines.is_empty() {
            self.parties.push_back(party);
        }
        Some(waiter.what)
    }

    /// Removes a request that no longer waits. Tells whether it was still there.
    pub(super) fn remove(&mut self, client: &ClientKey, number: u64) -> bool {
        let Some(at) = self
            .parties
            .iter()
            .position(|party| party.client == *client)
        else {
            return false;
        };
        let Some(party) = self.parties.get_mut(at) else {
            return false;
        };
        let found = party.lines.iter_mut().any(|line| {
            let found = line
                .waiters
                .binary_search_by_key(&number, |waiter| waiter.number);
            found.is_ok_and(|place| line.waiters.remove(place).is_some())
        });
        if found {
            self.len -= 1;
            party.lines.retain(|line| !line.waiters.is_empty());
            if party.lines.is_empty() {
                self.parties.remove(at);
            }
        }
        found
    }

    /// Returns the first request of each line: the candidates for the next turn.
    pub(super) fn fronts(&self) -> impl Iterator<Item = &T> {
        let lines = self.parties.iter().flat_map(|party| &party.lines);
        lines.filter_map(|line| Some(&line.waiters.front()?.what))
    }

    fn party(&self, client: &ClientKey) -> Option<&ClientQueue<T>> {
        self.parties.iter().find(|party| party.client == *client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> ClientKey {
        ClientKey::Named(name.into())
    }

    /// Returns a queue of these requests, each named by its client's letter and a number.
    fn queue(names: &[&'static str]) -> Queue<&'static str> {
        let mut queue = Queue::default();
        for name in names {
            queue.push(&client(&name[..1]), None, *name);
        }
        queue
    }

    fn all(mut queue: Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop(|_| true)).collect()
    }

    #[test]
    fn clients_take_turns_and_each_is_served_in_order() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&'static str], &[&str])] = &[
            ("one client", &["a1", "a2", "a3"], &["a1", "a2", "a3"]),
            ("every second turn", &["a1", "a2", "a3", "b1", "b2"], &["a1", "b1", "a2", "b2", "a3"]),
            ("three", &["a1", "a2", "b1", "c1", "c2"], &["a1", "b1", "c1", "a2", "c2"]),
            ("no client", &[], &[]),
        ];
        for (name, waiting, expected) in cases {
            assert_eq!(all(queue(waiting)), *expected, "{name}");
        }
    }

    #[test]
    fn a_removed_request_leaves_no_gap() {
        let mut left = queue(&["a1", "a2", "b1"]);
        assert!(left.remove(&client("a"), 1), "a1");
        assert!(!left.remove(&client("a"), 1), "a second time");
        assert!(left.remove(&client("b"), 3), "b1");
        assert!(!left.remove(&client("c"), 9), "never there");
        assert_eq!((left.len, left.parties.len()), (1, 1));
        assert_eq!(all(left), ["a2"]);
    }

    #[test]
    fn a_line_that_is_not_due_holds_up_no_other() {
        let slow: Group = "slow".into();
        let mut queue = Queue::default();
        queue.push(&client("a"), Some(&slow), "a slow");
        queue.push(&client("a"), None, "a fast");
        queue.push(&client("b"), Some(&slow), "b slow");
        let is_fast = |what: &&str| what.ends_with("fast");
        assert_eq!(queue.next(is_fast), Some((&client("a"), &"a fast")));
        assert_eq!(queue.pop(is_fast), Some("a fast"));
        assert_eq!(queue.pop(is_fast), None);
        assert_eq!(queue.pop(|_| true), Some("b slow"), "a has had a turn");
        assert_eq!(queue.fronts().count(), 1);
    }

    #[test]
    fn a_new_request_learns_how_many_go_before_it() {
        let waiting = queue(&["a1", "a2", "a3", "a4", "b1", "b2", "c1"]);
        for (name, ahead) in [
            ("a", 4 + 2 + 1),
            ("b", 2 + 2 + 1),
            ("c", 1 + 1 + 1),
            ("d", 3),
        ] {
            assert_eq!(waiting.ahead_of(&client(name)), ahead, "{name}");
        }
        assert_eq!(waiting.line_of(&client("b"), None), 2);
        assert_eq!(waiting.line_of(&client("b"), Some(&"slow".into())), 0);
    }
}
