//! A crawler that sends frames of HTTP/2 in any order: most of them well-formed, some at random, cut off anywhere.

use super::octets::{PREFACE, Random, field, frame};

/// Returns the octets of one connection.
pub fn script(random: &mut Random, port: u16) -> Vec<u8> {
    let mut octets = match random.below(20) {
        0 => random.octets(24),
        _ => PREFACE.to_vec(),
    };
    frame(&mut octets, 4, 0, 0, &[]);
    let mut stream = 1;
    for _ in 0..random.below(60) {
        let kind = random.below(12) as u8;
        let of = match random.below(4) {
            0 => 0,
            1 => random.next() as u32,
            _ => stream,
        };
        let count = random.below(64);
        let mut payload = random.octets(count);
        match random.below(10) {
            0..5 => {
                stream += 2;
                let flags = if random.below(3) == 0 { 4 } else { 5 };
                frame(&mut octets, 1, flags, stream, &head(random, port));
            }
            5 => frame(&mut octets, 3, 0, stream, &8_u32.to_be_bytes()),
            6 => frame(&mut octets, 8, 0, of, &(random.next() as u32).to_be_bytes()),
            7 => {
                payload.resize(6 * (payload.len() / 6), 0);
                frame(&mut octets, 4, 0, 0, &payload);
            }
            8 => frame(&mut octets, 9, random.next() as u8, stream, &head(random, port)),
            _ => frame(&mut octets, kind, random.next() as u8, of, &payload),
        }
    }
    if random.below(4) == 0 {
        octets.truncate(random.below(octets.len() as u64 + 1) as usize);
    }
    octets
}

/// Returns the fields of a request, most of them as they should be.
fn head(random: &mut Random, port: u16) -> Vec<u8> {
    let authority = format!("127.0.0.1:{port}");
    let methods = ["GET", "HEAD", "POST", "CONNECT", "X"];
    let paths = ["/pages/page", "/private/page", "*", "", "/%", "x"];
    let mut fields = vec![
        (":method", methods[random.below(6).min(4) as usize].to_owned()),
        (":scheme", "https".to_owned()),
        (":authority", authority),
        (":path", paths[random.below(6) as usize].to_owned()),
    ];
    if random.below(4) == 0 {
        fields.remove(random.below(4) as usize);
    }
    if random.below(3) == 0 {
        let names =
            ["cookie", "te", "content-length", "connection", "host", ":path", "X", "expect"];
        let value = ["1", "trailers", "", "a\r\nb: c"][random.below(4) as usize];
        fields.push((names[random.below(8) as usize], value.to_owned()));
    }
    let mut block = Vec::new();
    for (name, value) in fields {
        field(&mut block, name, &value);
    }
    block
}
