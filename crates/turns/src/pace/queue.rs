//! The queue of requests at one origin, and their order.
//!
//! Clients take turns: after each turn its client goes to the end of the row, so two waiting clients alternate, however
//! many requests one of them has sent. Within one client the order is first come, first served; but a crawler with a
//! longer crawl delay does not hold up another crawler of the same client.
//!
//! Pure: it knows neither time nor tasks.

use std::collections::VecDeque;

use super::bound::Group;
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
    groups: Vec<GroupQueue<T>>,
}

/// All waiting requests at one origin.
#[derive(Debug)]
pub(super) struct Queue<T> {
    clients: VecDeque<ClientQueue<T>>,
    arrived: u64,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { clients: VecDeque::new(), arrived: 0, len: 0 }
    }
}

impl<T> ClientQueue<T> {
    /// Returns the group with the earliest first request among the groups with a due first request.
    fn next_group(&self, is_due: &impl Fn(&T) -> bool) -> Option<usize> {
        let fronts = self.groups.iter().enumerate();
        let fronts = fronts.filter_map(|(at, group)| Some((at, group.waiters.front()?)));
        let due = fronts.filter(|(_, front)| is_due(&front.what));
        let first = due.min_by_key(|(_, front)| front.number);
        first.map(|(at, _)| at)
    }

    fn len(&self) -> usize {
        self.groups.iter().map(|group| group.waiters.len()).sum()
    }
}

impl<T> Queue<T> {
    /// Tells whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of waiting requests of one client.
    pub(super) fn len_of(&self, client: &ClientKey) -> usize {
        self.queue(client).map_or(0, ClientQueue::len)
    }

    /// Returns the number of this client's requests that wait under the same group.
    pub(super) fn len_in(&self, client: &ClientKey, group: Option<&Group>) -> usize {
        let groups = self.queue(client).map_or(&[][..], |queue| &queue.groups);
        let group = groups.iter().find(|one| one.group.as_ref() == group);
        group.map_or(0, |group| group.waiters.len())
    }

    /// Returns the number of requests that wait under this group, of all clients.
    pub(super) fn len_of_group(&self, group: Option<&Group>) -> usize {
        let groups = self.clients.iter().flat_map(|queue| &queue.groups);
        let same = groups.filter(|one| one.group.as_ref() == group);
        same.map(|group| group.waiters.len()).sum()
    }

    /// Returns the number of turns before the next request of `client`, if the queue stays as it is: all of the
    /// client's own requests, and one of each other client for each round.
    pub(super) fn ahead_of(&self, client: &ClientKey) -> usize {
        let own = self.len_of(client);
        let others = self.clients.iter().filter(|queue| queue.client != *client);
        // A new client stands behind all clients in the row.
        let rounds = own + usize::from(own == 0);
        own + others.map(|queue| queue.len().min(rounds)).sum::<usize>()
    }

    /// Appends a request to its client's group and returns its number.
    pub(super) fn push(&mut self, client: &ClientKey, group: Option<&Group>, what: T) -> u64 {
        self.arrived += 1;
        let number = self.arrived;
        let waiter = Waiter { number, what };
        let known = self.clients.iter().any(|queue| queue.client == *client);
        if !known {
            self.clients.push_back(ClientQueue { client: client.clone(), groups: Vec::new() });
        }
        let queue = self.clients.iter_mut().rfind(|queue| queue.client == *client);
        let Some(queue) = queue else { return number };
        self.len += 1;
        match queue.groups.iter_mut().find(|one| one.group.as_ref() == group) {
            Some(group) => group.waiters.push_back(waiter),
            None => queue
                .groups
                .push(GroupQueue { group: group.cloned(), waiters: VecDeque::from([waiter]) }),
        }
        number
    }

    /// Returns the next request among those that `is_due` accepts, and its client.
    pub(super) fn next(&self, is_due: impl Fn(&T) -> bool) -> Option<(&ClientKey, &T)> {
        self.clients.iter().find_map(|queue| {
            let group = queue.next_group(&is_due)?;
            let waiter = queue.groups.get(group)?.waiters.front()?;
            Some((&queue.client, &waiter.what))
        })
    }

    /// Removes the next request among those that `is_due` accepts; its client goes to the end of the row.
    pub(super) fn pop(&mut self, is_due: impl Fn(&T) -> bool) -> Option<T> {
        let next = |queue: &ClientQueue<T>| queue.next_group(&is_due);
        let (at, group) =
            self.clients.iter().enumerate().find_map(|(at, queue)| Some((at, next(queue)?)))?;
        let mut queue = self.clients.remove(at)?;
        let waiter = queue.groups.get_mut(group)?.waiters.pop_front()?;
        self.len -= 1;
        queue.groups.retain(|group| !group.waiters.is_empty());
        if !queue.groups.is_empty() {
            self.clients.push_back(queue);
        }
        Some(waiter.what)
    }

    /// Removes a request that no longer waits. Tells whether it was still there.
    pub(super) fn remove(&mut self, client: &ClientKey, number: u64) -> bool {
        let Some(at) = self.clients.iter().position(|queue| queue.client == *client) else {
            return false;
        };
        let Some(queue) = self.clients.get_mut(at) else {
            return false;
        };
        let found = queue.groups.iter_mut().any(|group| {
            let found = group.waiters.binary_search_by_key(&number, |waiter| waiter.number);
            found.is_ok_and(|place| group.waiters.remove(place).is_some())
        });
        if found {
            self.len -= 1;
            queue.groups.retain(|group| !group.waiters.is_empty());
            if queue.groups.is_empty() {
                self.clients.remove(at);
            }
        }
        found
    }

    /// Returns the first request of each group: the candidates for the next turn.
    pub(super) fn fronts(&self) -> impl Iterator<Item = &T> {
        let groups = self.clients.iter().flat_map(|queue| &queue.groups);
        groups.filter_map(|group| Some(&group.waiters.front()?.what))
    }

    fn queue(&self, client: &ClientKey) -> Option<&ClientQueue<T>> {
        self.clients.iter().find(|queue| queue.client == *client)
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
        assert_eq!((left.len, left.clients.len()), (1, 1));
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
        for (name, ahead) in [("a", 4 + 2 + 1), ("b", 2 + 2 + 1), ("c", 1 + 1 + 1), ("d", 3)] {
            assert_eq!(waiting.ahead_of(&client(name)), ahead, "{name}");
        }
        assert_eq!(waiting.len_in(&client("b"), None), 2);
        assert_eq!(waiting.len_of_group(None), 7);
        assert_eq!(waiting.len_in(&client("b"), Some(&"slow".into())), 0);
    }
}
