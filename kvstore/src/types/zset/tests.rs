//! Both encodings against a plain model.

use alloc::vec::Vec;
use alloc::{format, string::String};

use super::*;
use crate::random::Rng;
use crate::value::ItemExt;

fn config(listpack_entries: usize) -> ZSetLimits {
    ZSetLimits { listpack_entries, listpack_value: 64, hashing: Hashing::new(7) }
}

/// A sorted vector.
#[derive(Default)]
struct Model(Vec<(f64, Vec<u8>)>);

impl Model {
    fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.remove(member);
        let at = self.0.partition_point(|(s, m)| (*s, m.as_slice()) < (score, member));
        self.0.insert(at, (score, member.to_vec()));
        old
    }

    fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let at = self.0.iter().position(|(_, m)| m == member)?;
        Some(self.0.remove(at).0)
    }
}

fn view(set: &Item) -> ZSetRef<'_> {
    ZSetRef::of(set).unwrap()
}

fn edit(set: &mut Item) -> ZSetMut<'_> {
    ZSetMut::of(set).unwrap()
}

fn contents(set: &Item, ranks: Range<usize>, reverse: bool) -> Vec<(f64, Vec<u8>)> {
    view(set).iter(ranks, reverse).map(|(member, score)| (score, member.to_vec())).collect()
}

fn check(set: &Item, model: &Model) {
    let n = model.0.len();
    assert_eq!(view(set).len(), n);
    assert_eq!(contents(set, 0..n, false), model.0);
    let mut back = contents(set, 0..n, true);
    back.reverse();
    assert_eq!(back, model.0);
}

fn random_steps(config: &ZSetLimits, steps: usize, names: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut set = for_members(b"key", config, 0, 0).unwrap();
    let mut model = Model::default();
    for step in 0..steps {
        // Grows and shrinks in waves, so that splits and merges both happen at every level.
        let growing = (step / (names * 2)).is_multiple_of(2);
        let mut member = format!("m{}", rng.below(names)).into_bytes();
        if rng.below(50) == 0 {
            member.resize(rng.below(600), b'x');
        }
        let score = [rng.below(20) as f64, rng.below(1000) as f64 / 8.0, f64::INFINITY, -0.0, -1e30]
            [rng.below(5).min(rng.below(5))];
        if growing || rng.below(3) == 0 {
            assert_eq!(edit(&mut set).insert(&member, score, config).unwrap(), model.insert(&member, score));
        } else {
            assert_eq!(edit(&mut set).remove(&member), model.remove(&member));
            if rng.below(40) == 0 {
                let start = rng.below(model.0.len() + 1);
                let end = (start + rng.below(30)).min(model.0.len());
                let mut gone = Vec::new();
                edit(&mut set).remove_range(start..end, |member, score| gone.push((score, member.to_vec())));
                assert_eq!(gone, model.0.drain(start..end).collect::<Vec<_>>());
            }
        }
        let rank = rng.below(model.0.len() + 1);
        match model.0.get(rank) {
            Some((score, member)) => {
                assert_eq!(view(&set).score(member), Some(*score));
                assert_eq!(view(&set).rank(member), Some((rank, *score)));
                assert_eq!(view(&set).get(rank).map(|(m, s)| (m.to_vec(), s)), Some((member.clone(), *score)));
            }
            None => assert!(view(&set).get(rank).is_none()),
        }
        let range = ScoreRange {
            min: rng.below(25) as f64 - 2.0,
            max: rng.below(25) as f64 - 2.0,
            min_open: rng.below(2) == 0,
            max_open: rng.below(2) == 0,
        };
        let start = model.0.iter().filter(|(s, _)| range.is_before(*s)).count();
        let end = model.0.iter().filter(|(s, _)| range.is_before_end(*s)).count().max(start);
        assert_eq!(view(&set).score_range(&range), start..end);
        if step % 97 == 0 {
            check(&set, &model);
            let end = (start + 40).min(model.0.len());
            let mut part = contents(&set, start..end, true);
            part.reverse();
            assert_eq!(part, model.0[start.min(end)..end]);
        }
    }
    check(&set, &model);
    for (_, member) in &model.0 {
        assert!(edit(&mut set).remove(member).is_some());
    }
    assert!(view(&set).is_empty());
}

#[test]
fn a_listpack_behaves_as_the_model() {
    random_steps(&config(10_000), 4_000, 60, 1);
}

#[test]
fn a_tree_behaves_as_the_model() {
    random_steps(&config(0), 20_000, 40, 2);
    random_steps(&config(0), 30_000, 3_000, 3);
    random_steps(&config(20), 5_000, 50, 4);
}

#[test]
fn a_large_tree_keeps_order_counts_and_neighbours() {
    let config = config(128);
    let mut set = for_members(b"key", &config, 0, 0).unwrap();
    let n = 50_000usize;
    for i in 0..n {
        let j = i * 7919 % n;
        edit(&mut set).insert(format!("member:{j:08}").as_bytes(), (j / 3) as f64, &config).unwrap();
    }
    assert_eq!(set.encoding(), "skiplist");
    for rank in (0..n).step_by(997) {
        assert_eq!(view(&set).rank(format!("member:{rank:08}").as_bytes()), Some((rank, (rank / 3) as f64)));
    }
    let removed: Vec<String> = (0..n).filter(|i| i % 5 != 0).map(|i| format!("member:{i:08}")).collect();
    for member in &removed {
        assert!(edit(&mut set).remove(member.as_bytes()).is_some());
    }
    assert_eq!(view(&set).len(), n / 5);
    for (i, (member, score)) in view(&set).iter(0..n, false).enumerate() {
        assert_eq!((member, score), (Entry::Str(format!("member:{:08}", i * 5).as_bytes()), (i * 5 / 3) as f64));
    }
    edit(&mut set).remove_range(100..n / 5 - 100, |_, _| {});
    assert_eq!(view(&set).len(), 200);
    assert!(set.memory_usage(usize::MAX) < 60_000, "memory is given back: {}", set.memory_usage(usize::MAX));
}

#[test]
fn a_scan_sees_every_element_that_stays() {
    let config = config(0);
    let mut set = for_members(b"key", &config, 1, 1).unwrap();
    let mut rng = Rng::new(5);
    for i in 0..5_000 {
        edit(&mut set).insert(format!("stay{i}").as_bytes(), i as f64, &config).unwrap();
    }
    let mut seen = alloc::collections::BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = view(&set).scan(cursor, 10, |member, _| {
            seen.insert(member.to_vec());
        });
        for _ in 0..20 {
            let guest = format!("guest{}", rng.below(3_000));
            if rng.below(2) == 0 {
                edit(&mut set).insert(guest.as_bytes(), rng.below(5_000) as f64, &config).unwrap();
            } else {
                edit(&mut set).remove(guest.as_bytes());
            }
        }
        if cursor == 0 {
            break;
        }
    }
    assert!((0..5_000).all(|i| seen.contains(format!("stay{i}").as_bytes())));
}

#[test]
fn encodings_change_at_the_limits() {
    let config = config(3);
    let mut set = for_members(b"key", &config, 1, 1).unwrap();
    for (i, member) in ["a", "b", "c"].iter().enumerate() {
        edit(&mut set).insert(member.as_bytes(), i as f64, &config).unwrap();
    }
    assert_eq!(set.encoding(), "listpack");
    edit(&mut set).insert(b"a", 9.0, &config).unwrap();
    assert_eq!(set.encoding(), "listpack");
    edit(&mut set).insert(b"d", 0.0, &config).unwrap();
    assert_eq!(set.encoding(), "skiplist");
    edit(&mut set).remove(b"d");
    assert_eq!(crate::value::copy_of(&set, b"copy").unwrap().encoding(), "skiplist");
    edit(&mut set).settle(&config).unwrap();
    assert_eq!(set.encoding(), "listpack");
    edit(&mut set).insert(&[b'x'; 65], 0.0, &config).unwrap();
    assert_eq!(set.encoding(), "skiplist");
}

#[test]
fn memory_of_many_members_stays_below_the_aim() {
    let config = config(128);
    let mut set = for_members(b"key", &config, 0, 0).unwrap();
    let n = 200_000u64;
    let mut rng = Rng::new(1);
    for i in 0..n {
        edit(&mut set).insert(format!("member:{i:08}").as_bytes(), rng.below(1 << 40) as f64, &config).unwrap();
    }
    let per_member = set.memory_usage(usize::MAX) as f64 / n as f64;
    assert!(per_member < 60.0, "{per_member}");
    let mut steps = 0;
    let mut object = set.into_object().unwrap();
    while !object.free_step(1_000) {
        steps += 1;
    }
    assert!(steps > 100);
}
