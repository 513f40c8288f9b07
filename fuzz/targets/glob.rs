//! Glob patterns against a matcher that goes another way: all of the pattern's elements at once, letter by letter.
#![no_main]

use barium_fuzz::input::Input;
use barium_kvstore::glob;
use libfuzzer_sys::fuzz_target;

/// One element of a pattern.
enum Element {
    Star,
    /// The letters that it matches.
    One(Box<[bool; 256]>),
}

fn elements(pattern: &[u8], nocase: bool) -> Vec<Element> {
    let set =
        |matches: &dyn Fn(u8) -> bool| Element::One(Box::new(core::array::from_fn(|letter| matches(letter as u8))));
    let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
    let mut elements = Vec::new();
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        elements.push(match (first, after) {
            (b'*', _) => Element::Star,
            (b'?', _) => set(&|_| true),
            (b'\\', [literal, after @ ..]) => {
                rest = after;
                set(&|letter| fold(letter) == fold(*literal))
            }
            (b'[', _) => {
                let negated = after.first() == Some(&b'^');
                let mut class = [false; 256];
                rest = &after[usize::from(negated)..];
                loop {
                    rest = match rest {
                        [] => break,
                        [b'\\', literal, after @ ..] => {
                            class[usize::from(*literal)] = true;
                            after
                        }
                        [b']', after @ ..] => {
                            rest = after;
                            break;
                        }
                        [a, b'-', b, after @ ..] => {
                            let (low, high) = (i8::min(*a as i8, *b as i8), i8::max(*a as i8, *b as i8));
                            let (low, high) = (fold(low as u8) as i8, fold(high as u8) as i8);
                            for letter in 0..=255u8 {
                                class[usize::from(letter)] |= low <= fold(letter) as i8 && fold(letter) as i8 <= high;
                            }
                            after
                        }
                        [literal, after @ ..] => {
                            for letter in 0..=255u8 {
                                class[usize::from(letter)] |= fold(letter) == fold(*literal);
                            }
                            after
                        }
                    };
                }
                set(&|letter| class[usize::from(letter)] != negated)
            }
            (literal, _) => set(&|letter| fold(letter) == fold(literal)),
        });
    }
    elements
}

fn expected(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let elements = elements(pattern, nocase);
    if text.is_empty() {
        return elements.is_empty();
    }
    // Positions in the pattern that the text so far can lead to.
    let mut reached = vec![false; elements.len() + 1];
    reached[0] = true;
    let pass_stars = |reached: &mut Vec<bool>| {
        for i in 0..elements.len() {
            if reached[i] && matches!(elements[i], Element::Star) {
                reached[i + 1] = true;
            }
        }
    };
    pass_stars(&mut reached);
    for &letter in text {
        let mut next = vec![false; elements.len() + 1];
        for (i, element) in elements.iter().enumerate().filter(|(i, _)| reached[*i]) {
            match element {
                Element::Star => next[i] = true,
                Element::One(class) => next[i + 1] |= class[usize::from(letter)],
            }
        }
        pass_stars(&mut next);
        reached = next;
    }
    reached[elements.len()]
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let nocase = input.byte() & 1 != 0;
    let len = input.below(64);
    let pattern = input.take(len);
    let text = input.0;
    assert_eq!(
        glob::matches_case(pattern, text, nocase),
        expected(pattern, text, nocase),
        "{} against {}",
        pattern.escape_ascii(),
        text.escape_ascii()
    );
});
