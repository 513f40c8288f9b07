//! `maxmemory-policy`.

/// By what a key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was not used for longest.
    Lru,
    /// The one that is used least often.
    Lfu,
    /// Any.
    Random,
    /// The one whose deadline comes first.
    Ttl,
}

/// Which keys are removed when memory runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Only keys with a deadline.
    pub volatile_only: bool,
    /// Which of them first.
    pub order: Order,
}

impl Policy {
    /// The names, in Redis's order.
    pub const NAMES: &'static [&'static str] = &[
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
    ];

    /// Whether keys are chosen by how they are used.
    pub const fn uses_access_clock(self) -> bool {
        matches!(self.order, Order::Lru | Order::Lfu)
    }

    /// The policy of a name; None: no key is removed.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let (volatile_only, order) = match name.strip_prefix(b"volatile-") {
            Some(order) => (true, order),
            None => (false, name.strip_prefix(b"allkeys-")?),
        };
        let order = match order {
            b"lru" => Order::Lru,
            b"lfu" => Order::Lfu,
            b"random" => Order::Random,
            b"ttl" => Order::Ttl,
            _ => return None,
        };
        Some(Self { volatile_only, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_policy() {
        let policies: alloc::vec::Vec<_> = Policy::NAMES.iter().map(|n| Policy::of_name(n.as_bytes())).collect();
        assert_eq!(policies[3], Some(Policy { volatile_only: true, order: Order::Ttl }));
        assert_eq!(policies[5], Some(Policy { volatile_only: false, order: Order::Lfu }));
        assert_eq!(policies[7], None);
        assert!(policies[..7].iter().all(Option::is_some));
    }
}
