//! Glob patterns as Redis matches them: `*`, `?`, `[abc]`, `[^a-z]` and `\` before a character that is to be itself.

/// Whether all of `text` matches `pattern`. Takes time in proportion to the product of their lengths at most, and no
/// stack.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_case(pattern, text, false)
}

/// As [`matches`]; `nocase` takes capital and small ASCII letters for the same.
pub fn matches_case(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        // Not even "*" matches it: callers that mean "everything" look for that pattern first, as Redis's do.
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // After the last star: what follows it in the pattern, and where in the text that is being tried. Earlier stars need
    // not take more: what they could gain, the last one can.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                while pattern.get(p) == Some(&b'*') {
                    p += 1;
                }
                if p == pattern.len() {
                    return true;
                }
                retry = Some((p, t));
                continue;
            }
            Some(_) => one(&pattern[p..], text[t], nocase),
            None => None,
        };
        match (step, &mut retry) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            (None, Some((after, from))) => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Matches one character against the pattern's first element, which is no star: the element's length if it matches.
fn one(pattern: &[u8], c: u8, nocase: bool) -> Option<usize> {
    let same = |a: u8| if nocase { a.eq_ignore_ascii_case(&c) } else { a == c };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (hit, used) = in_class(class, c, nocase);
            hit.then_some(1 + used)
        }
        [b'\\', literal, ..] => same(*literal).then_some(2),
        [literal, ..] => same(*literal).then_some(1),
        [] => None,
    }
}

/// Whether `c` is in the class whose inside `class` starts with, and how long that is with its closing bracket. A class
/// without one goes to the pattern's end.
fn in_class(class: &[u8], c: u8, nocase: bool) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut hit = false;
    loop {
        match &class[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                hit |= *literal == c;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                // Characters are signed there.
                let fold = |b: u8| (if nocase { b.to_ascii_lowercase() } else { b }) as i8;
                let (low, high) = if (*low as i8) > (*high as i8) { (*high, *low) } else { (*low, *high) };
                hit |= (fold(low)..=fold(high)).contains(&fold(c));
                at += 3;
            }
            [literal, ..] => {
                hit |= if nocase { literal.eq_ignore_ascii_case(&c) } else { *literal == c };
                at += 1;
            }
        }
    }
    (hit != negated, at)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn as_redis_matches() {
        let yes = [
            ("*", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c*e", "abcde"),
            ("a**", "a"),
            ("?", "x"),
            ("a?c", "abc"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("[^]", "x"),
            ("[a-]", "^"),
            ("", ""),
            ("*a*b", "xaxbxb"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("*", ""),
            ("", "a"),
            ("a", "ab"),
            ("ab", "a"),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("*a", "ab"),
            ("A", "a"),
            ("a*b", "acbd"),
            ("[a-", "b"),
            ("\\?", "x"),
        ] {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        assert!(matches_case(b"A[B-D]*", b"aCx", true));
    }

    #[test]
    fn many_stars_cost_little() {
        let pattern: Vec<u8> = b"*a".repeat(2000);
        assert!(!matches(&pattern, &b"a".repeat(1999)));
        assert!(matches(&pattern, &b"a".repeat(2000)));
    }
}
