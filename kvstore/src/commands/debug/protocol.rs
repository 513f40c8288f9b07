//! DEBUG PROTOCOL: a value of each type of the protocol, for tests of client libraries.

use crate::ctx::Ctx;
use crate::error::Error;

/// PROTOCOL.
pub fn protocol(ctx: &mut Ctx<'_>) -> Result<(), Error> {
    let r = &mut ctx.reply;
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => r.bulk(b"Hello World"),
        b"integer" => r.int(12345),
        b"double" => r.double(3141.0 / 1000.0),
        b"null" => r.null(),
        b"array" => {
            r.array(3);
            (0..3).for_each(|n| r.int(n));
        }
        b"set" => {
            r.set(3);
            (0..3).for_each(|n| r.int(n));
        }
        b"map" => {
            r.map(3);
            for n in 0..3 {
                r.int(n);
                r.boolean(n == 1);
            }
        }
        b"attrib" => {
            if r.resp3 {
                r.raw(b"|1\r\n");
                r.bulk(b"key-popularity");
                r.array(2);
                r.bulk(b"key:123");
                r.int(90);
            }
            r.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if !r.resp3 {
                return Err(Error::Fixed("ERR RESP2 is not supported by this command"));
            }
            // A client sees the reply to its command before what is pushed by it.
            r.bulk(b"Some real reply following the push reply");
            r.push(2);
            r.bulk(b"server-cpu-usage");
            r.int(42);
        }
        b"verbatim" => r.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => r.boolean(true),
        b"false" => r.boolean(false),
        b"bignum" => r.big_number("1234567999999999999999999999999999999"),
        _ => {
            return Err(Error::Fixed(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
