//! Five sets of decisions, all recorded unless noted:
//!
//! - A: 1,000 sites mixed at random, paths of some 42 octets;
//! - B: 200,000 sites, 6 pages of each at a time;
//! - C: only denials, 20,000 sites, 40 User-Agents;
//! - D: hostile, a path of 170 octets, hexadecimal digits at random, and another User-Agent each time;
//! - E: as A, paths of some 74 octets with parameters of trackers.

use std::net::SocketAddr;

use crawlgate_record::Digest;

/// Numbers that look random (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// Returns the dice of a set: the same requests each time.
    pub(crate) fn of_set(set: char) -> Self {
        Self(u64::from(u32::from(set)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }
}

const WORDS: &[&str] = &[
    "news", "world", "article", "products", "item", "category", "archive", "image", "blog", "post",
    "about", "search", "local", "sport", "culture", "review", "house", "garden", "people",
    "winter", "summer", "travel", "market", "price", "report", "study", "energy", "water",
    "street", "school", "music", "film", "light", "paper", "green", "north", "south", "river",
    "mountain", "history", "future", "health", "science", "doctor", "kitchen", "recipe", "letter",
    "question", "answer", "village", "city", "office", "window", "garage", "engine", "circle",
    "number", "colour", "season", "weather", "morning", "evening", "friend", "family",
];

/// One request of a set.
#[allow(dead_code, reason = "each benchmark uses a part of it")]
pub(crate) struct Request {
    pub(crate) n: u64,
    pub(crate) id: [u8; 16],
    pub(crate) client: SocketAddr,
    pub(crate) site: u64,
    pub(crate) origin: String,
    pub(crate) url: String,
    pub(crate) user_agent: String,
    pub(crate) token: String,
    pub(crate) rule: String,
    pub(crate) basis: Digest,
    pub(crate) is_denied: bool,
    pub(crate) bytes_out: u64,
    pub(crate) duration: u64,
}

fn path(dice: &mut Dice) -> String {
    format!(
        "/{}/{}/{}-{}-{}-{}.html",
        dice.of(WORDS),
        2_015 + dice.below(12),
        dice.of(WORDS),
        dice.of(WORDS),
        dice.of(WORDS),
        dice.below(100_000)
    )
}

fn random(dice: &mut Dice, letters: &[u8], length: usize) -> String {
    let letter = |_| char::from(letters[dice.below(letters.len() as u64) as usize]);
    (0..length).map(letter).collect()
}

/// Returns the `n`th request of a set.
pub(crate) fn request(set: char, n: u64, dice: &mut Dice) -> Request {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let site = match set {
        'B' => n / 6 * 7_919 % 200_000,
        'C' => dice.below(20_000),
        _ => dice.below(1_000),
    };
    let is_denied = set == 'C' || n.is_multiple_of(10);
    let user_agent = match set {
        'C' => format!("Crawler-{}/2.1 (+https://bot.example/about)", dice.below(40)),
        'D' => format!("{}/1.0 ({})", random(dice, LETTERS, 12), random(dice, LETTERS, 48)),
        _ => "ExampleBot/1.0 (+https://bot.example/about)".to_owned(),
    };
    let path = match set {
        'D' => format!("/{}", random(dice, b"0123456789abcdef", 169)),
        'E' => format!(
            "{}?utm_source={}&gclid={:08x}",
            path(dice),
            ["newsletter", "social", "search"][dice.below(3) as usize],
            dice.next() as u32
        ),
        _ => path(dice),
    };
    // Requests of several connections end in another order than they began.
    let time = 1_795_176_000_000 + n / 20 + dice.below(8);
    let counter = u128::from((n + dice.below(8)) as u32);
    let id = u128::from(time) << 80 | counter << 48 | 0x00c0_ffee_0007;
    let origin = format!("https://www.site-{site}.example");
    Request {
        n,
        id: id.to_be_bytes(),
        client: ([10, 0, 0, dice.below(16) as u8], 32_768 + dice.below(28_000) as u16).into(),
        site,
        url: [&origin, path.as_str()].concat(),
        origin,
        token: user_agent.split('/').next().unwrap().to_owned(),
        user_agent,
        rule: format!("Disallow: /{}", WORDS[site as usize % WORDS.len()]),
        // The state of an origin's robots.txt changes twice in a set.
        basis: digest((site << 8) | (n / 60_000)),
        is_denied,
        bytes_out: if is_denied { 412 } else { 2_000 + dice.below(90_000) },
        duration: if is_denied { 20 + dice.below(60) } else { 20_000 + dice.below(400_000) },
    }
}

/// Returns the digest of a thing with this number.
pub(crate) fn digest(of: u64) -> Digest {
    let mut dice = Dice(of);
    let mut digest = [0; 32];
    for part in digest.chunks_exact_mut(8) {
        part.copy_from_slice(&dice.next().to_be_bytes());
    }
    digest
}
