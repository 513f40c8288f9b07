use super::*;
use crate::encoding::Entry;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LIMITS: StreamLimits = StreamLimits { node_bytes: 4096, node_entries: 4 };

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

fn add(log: &mut Log, new: NewId, words: &str) -> StreamId {
    let given = log.new_id(new).unwrap();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    log.append(given, words.iter().copied(), &LIMITS).unwrap();
    given
}

fn shown(range: Range<'_>) -> String {
    let mut text = String::new();
    for item in range {
        let words: Vec<Vec<u8>> = item.pairs().map(Entry::to_vec).collect();
        let words = words.join(&b' ');
        text += &format!("{}-{} {};", item.id.ms, item.id.seq, String::from_utf8_lossy(&words));
    }
    text
}

/// A stream that was RESTOREd brings counters of its own, which may be any.
#[test]
fn counters_at_their_end_go_on_from_zero() {
    let mut log = Log::default();
    add(&mut log, NewId::Auto(5), "a 1");
    log.entries_added = u64::MAX;
    let mut group = Group::new(StreamId::MIN, Some(u64::MAX));
    group.advance(&log, id(5, 0));
    assert_eq!(group.entries_read, Some(0));
    assert_eq!(log.distance_from_first(id(5, 0)), Some(u64::MAX));
    add(&mut log, NewId::Auto(6), "a 2");
    assert_eq!(log.entries_added, 0);
    assert_eq!(group.lag(&log), Some(0));
}

#[test]
fn ids_come_from_time_and_sequence() {
    let mut log = Log::default();
    assert_eq!(add(&mut log, NewId::Auto(5), "a 1"), id(5, 0));
    assert_eq!(add(&mut log, NewId::Auto(5), "a 2"), id(5, 1));
    assert_eq!(add(&mut log, NewId::Auto(3), "b 3"), id(5, 2));
    assert_eq!(add(&mut log, NewId::Time(7), "a 4 b 5"), id(7, 0));
    assert_eq!(add(&mut log, NewId::Time(7), "a 6"), id(7, 1));
    assert_eq!(log.new_id(NewId::Time(6)), None);
    assert_eq!(log.new_id(NewId::Exact(id(7, 1))), None);
    assert_eq!(shown(log.range(id(5, 1), id(7, 0), false)), "5-1 a 2;5-2 b 3;7-0 a 4 b 5;");
    assert_eq!(shown(log.range(id(5, 1), id(7, 0), true)), "7-0 a 4 b 5;5-2 b 3;5-1 a 2;");
    assert_eq!(shown(log.range(id(9, 1), id(7, 0), true)), "");
    add(&mut log, NewId::Exact(StreamId::MAX), "z 1");
    assert_eq!(log.new_id(NewId::Auto(8)), None);
    assert_eq!(id(1, u64::MAX).next(), Some(id(2, 0)));
    assert_eq!(id(2, 0).prev(), Some(id(1, u64::MAX)));
    assert_eq!(StreamId::from_bytes(id(3, 4).to_bytes()), id(3, 4));
}

/// Random appends, deletions and trims against a plain map; every node stays well-formed.
#[test]
fn behaves_like_an_ordered_map() {
    let mut seed: u64 = 88_172_645_463_325_252;
    let mut random = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    for _ in 0..60 {
        let (mut log, mut model) = (Log::default(), BTreeMap::new());
        for step in 0..200u64 {
            let last = log.last_id.ms;
            match random(8) {
                0..=3 => {
                    let words = ["a 1", "a x b y", "b -5", "a 1000"][random(4) as usize];
                    let id = add(&mut log, NewId::Time(last + random(2)), words);
                    model.insert(id, words);
                }
                4 => {
                    let gone = id(random(last + 1), random(3));
                    assert_eq!(log.delete(gone), model.remove(&gone).is_some());
                }
                5 => {
                    let n = random(40) + step / 8;
                    let trim = Trim { bound: Bound::Len(n), approximate: false, limit: 0 };
                    let want = (model.len() as u64).saturating_sub(n);
                    (0..want).for_each(|_| assert!(model.pop_first().is_some()));
                    assert_eq!(log.trim(&trim), want);
                }
                6 => {
                    let bound = id(random(last + 1) / 2, random(2));
                    let before = model.len() as u64;
                    model.retain(|id, _| *id >= bound);
                    let trim = Trim { bound: Bound::Id(bound), approximate: false, limit: 0 };
                    assert_eq!(log.trim(&trim), before - model.len() as u64);
                }
                _ => {
                    let (a, b) = (id(random(last + 2), random(3)), id(random(last + 2), random(3)));
                    let want: String = if a > b {
                        String::new()
                    } else {
                        model.range(a..=b).map(|(i, w)| format!("{}-{} {w};", i.ms, i.seq)).collect()
                    };
                    assert_eq!(shown(log.range(a, b, false)), want);
                    let mut back: Vec<&str> = want.split_inclusive(';').collect();
                    back.reverse();
                    assert_eq!(shown(log.range(a, b, true)), back.concat());
                }
            }
            assert_eq!(log.len, model.len() as u64);
            assert_eq!(log.first_id, model.keys().next().copied().unwrap_or_default());
            assert_eq!(log.last_valid_id(), model.keys().next_back().copied().unwrap_or_default());
            for (master, node) in log.nodes() {
                let copy = node.listpack().try_clone().unwrap();
                assert!(Node::from_listpack(copy, master).is_some(), "{:?}", node.listpack());
            }
        }
        let all = |log: &Log| shown(log.range(StreamId::MIN, StreamId::MAX, false));
        assert_eq!(all(&log.try_clone().unwrap()), all(&log));
    }
}

#[test]
fn freeing_takes_bounded_steps() {
    let mut stream = Stream::new();
    for i in 1..=400 {
        add(&mut stream.log, NewId::Auto(i), "a 1");
    }
    let mut group = Group::new(StreamId::MIN, None);
    for name in [b"x", b"y"] {
        group.add_consumer(name, 1);
        let name = group.shared_name(name).unwrap();
        for i in 1..=50 {
            group.assign(id(i, 0), &name, 1);
        }
    }
    assert_eq!((group.pending.len(), group.remove_consumer(b"x")), (50, Some(0)));
    assert!(group.acknowledge(id(3, 0)) && !group.acknowledge(id(3, 0)));
    stream.groups.insert((*b"g").into(), group);
    let mut steps = 0;
    while !stream.free_step(10) {
        steps += 1;
        assert!(steps < 80);
    }
    assert!(steps > 15 && stream.groups.is_empty());
}

#[test]
fn radix_tree_nodes_are_counted_as_redis_has_them() {
    let mut log = Log::default();
    assert_eq!(log.radix_nodes(), 1);
    let limits = StreamLimits { node_bytes: 4096, node_entries: 1 };
    let mut counts = Vec::new();
    for given in [id(1, 1), id(1, 2), id(1, 256), id(5, 1)] {
        log.append(given, [&b"a"[..], b"b"].into_iter(), &limits).unwrap();
        counts.push(log.radix_nodes());
    }
    assert_eq!(counts, [2, 4, 7, 11]);
}
