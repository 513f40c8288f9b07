//! The quicklist against a vector.

use alloc::format;
use alloc::vec;

use super::*;

fn check(list: &Quicklist, model: &[Vec<u8>]) {
    assert_eq!(list.len(), model.len());
    assert_eq!(list.to_texts(), model);
    assert_eq!(list.nodes().map(Node::count).sum::<usize>(), model.len());
    assert!(list.nodes().all(|n| n.count() > 0));
    if let Some(last) = model.len().checked_sub(1) {
        let mut back: Vec<_> = list.iter_back_from(last).map(Entry::to_vec).collect();
        back.reverse();
        assert_eq!(back, model);
    }
}

#[test]
fn random_edits_match_a_vector() {
    let mut seed = 3u64;
    let mut random = move |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    for limit in [-1, -2, 1, 3, 0, 128] {
        let mut list = Quicklist::new(NodeLimit::new(limit));
        let mut model: Vec<Vec<u8>> = Vec::new();
        for step in 0..6000 {
            let element = match random(50) {
                0 => vec![b'b'; 9000],
                1..=9 => format!("{}", random(50)).into_bytes(),
                _ => vec![b'a' + random(4) as u8; random(120)],
            };
            let at = random(model.len() + 1);
            match random(if step < 3000 { 14 } else { 20 }) {
                0..=2 => {
                    list.push(End::Left, &element).unwrap();
                    model.insert(0, element);
                }
                3..=5 => {
                    list.push(End::Right, &element).unwrap();
                    model.push(element);
                }
                6..=8 if at < model.len() => {
                    list.insert(at, false, &element).unwrap();
                    model.insert(at, element);
                }
                9 | 10 if at < model.len() => {
                    list.insert(at, true, &element).unwrap();
                    model.insert(at + 1, element);
                }
                11 if at < model.len() => {
                    list.replace(at, &element).unwrap();
                    model[at] = element;
                }
                12 => {
                    let n = random(20);
                    list.delete_range(at, n);
                    model.drain(at..(at + n).min(model.len()));
                }
                13 => {
                    let (max, from) = (random(4) + 1, if random(2) == 0 { End::Left } else { End::Right });
                    let mut hits: Vec<_> = (0..model.len()).filter(|&i| model[i] == element).collect();
                    if from == End::Right {
                        hits.reverse();
                    }
                    hits.truncate(max);
                    hits.sort_unstable();
                    assert_eq!(list.remove_equal(&element, max, from), hits.len());
                    for i in hits.into_iter().rev() {
                        model.remove(i);
                    }
                }
                14 | 15 => {
                    let left = random(2) == 0;
                    let end = if left { End::Left } else { End::Right };
                    let expected = if left { model.first() } else { model.last() };
                    assert_eq!(list.peek(end).map(Entry::to_vec).as_ref(), expected);
                    list.pop(end);
                    if left {
                        model.drain(..model.len().min(1)).for_each(drop)
                    } else {
                        model.truncate(model.len().saturating_sub(1))
                    }
                }
                _ => {
                    list.delete_range(at, 3);
                    model.drain(at..(at + 3).min(model.len()));
                    assert_eq!(list.get(at).map(Entry::to_vec).as_ref(), model.get(at));
                }
            }
            if step % 500 == 0 {
                check(&list, &model);
            }
        }
        check(&list, &model);
        let mut walked = Vec::new();
        list.runs(5, 40, |run| match run {
            Run::Packed(cursor, n) => walked.extend(cursor.take(n).map(Entry::to_vec)),
            Run::Plain(bytes) => walked.push(bytes.to_vec()),
        });
        assert_eq!(walked, model[5.min(model.len())..45.min(model.len())]);
        while !list.free_step(7) {}
        assert_eq!(list.node_count(), 0);
    }
}

#[test]
fn a_long_list_costs_little_and_is_indexed_in_few_steps() {
    let mut list = Quicklist::new(NodeLimit::new(-2));
    for i in 0..300_000 {
        list.push(if i % 2 == 0 { End::Left } else { End::Right }, format!("{i:016}x").as_bytes()).unwrap();
    }
    let per_element = list.memory_usage(usize::MAX) as f64 / 300_000.0;
    assert!(per_element < 20.0, "{per_element} bytes for 17");
    assert_eq!(list.get(0).map(Entry::to_vec), Some(b"0000000000299998x".to_vec()));
    assert_eq!(list.get(149_999).map(Entry::to_vec), Some(b"0000000000000000x".to_vec()));
    assert_eq!(list.get(299_999).map(Entry::to_vec), Some(b"0000000000299999x".to_vec()));
    assert!(list.get(300_000).is_none());
}
