//! The kinds of notes, with their codes and their words.

use std::fmt;
use std::time::Duration;

use super::super::field::Field;

/// The kinds of remarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LintKind {
    /// The line is not of the form `field: value`.
    NoField,
    /// The field's name is unknown.
    UnknownField,
    /// A line of two words without a colon, read as if it had one (Google).
    NoColon,
    /// A field's name that is misspelt in a frequent way, or has more letters behind it, read as this one (Google).
    Misspelt(Field),
    /// A rule before the first user-agent line.
    NobodysRule,
    /// A user-agent value that can name no crawler.
    NamesNobody,
    /// A user-agent value with a name at its beginning and more behind it.
    NameCut,
    /// A user-agent line that joins the group above although other fields or a blank line stand between them: only a rule
    /// ends a group's user-agent lines.
    JoinsGroup,
    /// A user-agent line with a name that a group above has, too.
    NamedAgain {
        /// The number of the other user-agent line.
        line: u32,
    },
    /// A second field in the value of the first.
    SecondField(Field),
    /// An invisible character at an end of the line or of its value.
    Invisible(char),
    /// An HTML tag in the value.
    Markup,
    /// A Crawl-delay or Request-rate in an odd form, read as this time.
    DelayForm(Duration),
    /// A Crawl-delay or Request-rate that cannot be read.
    DelayUnread,
    /// A group without rules.
    EmptyGroup,
    /// A rule path that begins with neither `/` nor `*`.
    NeverMatches,
    /// A comment that begins inside a rule's path.
    CommentInside,
    /// A line that ends at a NUL.
    Nul,
    /// A line so long that only its beginning counts.
    Cut,
    /// A line that is not UTF-8.
    NotUtf8,
    /// A rule that says the same as another.
    Duplicate {
        /// The number of the other rule's line.
        line: u32,
    },
    /// A rule that can never decide: another rule says the opposite of the same paths and takes precedence.
    Shadowed {
        /// The number of the other rule's line.
        line: u32,
    },
    /// An `allow` without effect: no `disallow` that it could win against matches any of its paths.
    Unneeded,
    /// The first line that the size limit leaves out.
    Truncated,
    /// The file is UTF-16.
    Utf16,
    /// The file begins with a UTF-8 byte order mark.
    ByteOrderMark,
    /// The file is UTF-16 without a byte order mark.
    Utf16Unmarked,
    /// The file is UTF-32.
    Utf32,
    /// The file is compressed in this way.
    Compressed(&'static str),
    /// The file is an HTML page.
    Html,
    /// The file is an XML document.
    Xml,
    /// A Sitemap with several URLs, or with a space in its URL.
    SitemapList,
    /// A Sitemap without an absolute URL.
    SitemapUrl,
    /// A statement on use that does not parse.
    UsageInvalid,
    /// A statement with a key that the vocabulary does not know.
    UsageUnknownKey,
    /// A statement that gives a category another value than `y` or `n`.
    UsageValue,
    /// A Content-Usage before the first user-agent line.
    UsageNoGroup,
    /// A Content-Usage that says nothing of a category which a shorter path of its group speaks of.
    UsageNotCarried {
        /// The number of the other line.
        line: u32,
    },
    /// A Content-Signal that gives a category another value than `yes` or `no`.
    SignalValue,
    /// A Content-Signal before the first user-agent line.
    SignalAboveGroups,
    /// A License in the last of several groups.
    LicenseInGroup,
    /// A License that is no absolute URL.
    LicenseUrl,
}

impl LintKind {
    /// Returns a stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoField => "no_field",
            Self::UnknownField => "unknown_field",
            Self::NoColon => "no_colon",
            Self::Misspelt(_) => "misspelt",
            Self::NobodysRule => "nobodys_rule",
            Self::NamesNobody => "names_nobody",
            Self::NameCut => "name_cut",
            Self::JoinsGroup => "joins_group",
            Self::NamedAgain { .. } => "named_again",
            Self::SecondField(_) => "second_field",
            Self::Invisible(_) => "invisible",
            Self::Markup => "markup",
            Self::DelayForm(_) => "delay_form",
            Self::DelayUnread => "delay_unread",
            Self::EmptyGroup => "empty_group",
            Self::NeverMatches => "never_matches",
            Self::CommentInside => "comment_inside",
            Self::Nul => "nul",
            Self::Cut => "cut",
            Self::NotUtf8 => "not_utf8",
            Self::Duplicate { .. } => "repeats",
            Self::Shadowed { .. } => "outranked",
            Self::Unneeded => "needless",
            Self::Truncated => "truncated",
            Self::Utf16 => "utf_16",
            Self::ByteOrderMark => "byte_order_mark",
            Self::Utf16Unmarked => "utf_16_unmarked",
            Self::Utf32 => "utf_32",
            Self::Compressed(_) => "compressed",
            Self::Html => "html",
            Self::Xml => "xml",
            Self::SitemapList => "sitemap_list",
            Self::SitemapUrl => "sitemap_url",
            Self::UsageInvalid => "usage_invalid",
            Self::UsageUnknownKey => "usage_unknown_key",
            Self::UsageValue => "usage_value",
            Self::UsageNoGroup => "usage_no_group",
            Self::UsageNotCarried { .. } => "usage_not_carried",
            Self::SignalValue => "signal_value",
            Self::SignalAboveGroups => "signal_above_groups",
            Self::LicenseInGroup => "license_in_group",
            Self::LicenseUrl => "license_url",
        }
    }
}

impl fmt::Display for LintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoField => "not of the form `field: value`, ignored",
            Self::UnknownField => "unknown field, ignored",
            Self::NoColon => "the colon is missing, accepted all the same",
            Self::Misspelt(field) => return write!(f, "misspelt, read as `{}`", field.as_str()),
            Self::NobodysRule => {
                "a rule before the first user-agent line belongs to no group, ignored"
            }
            Self::NamesNobody => {
                "no crawler can have this name: letters, digits, `-`, `_` and `.` only, or `*`"
            }
            Self::NameCut => {
                "the name ends at the first character that no name can have, the rest is ignored"
            }
            Self::JoinsGroup => {
                "joins the group above: only an allow or disallow line ends its user-agent lines"
            }
            Self::NamedAgain { line } => {
                return write!(f, "line {line} names it, too: the rules of both groups count together");
            }
            Self::SecondField(field) => {
                return write!(
                    f,
                    "`{}` is a part of the value here, and no field: each field takes a line of its own",
                    field.as_str()
                );
            }
            Self::Invisible(character) => {
                return write!(
                    f,
                    "an invisible character at an end, U+{:04X}: it counts as a part of the text",
                    u32::from(*character)
                );
            }
            Self::Markup => "a tag of HTML is a part of the value here",
            Self::DelayForm(time) => {
                let seconds = time.as_secs_f64();
                return write!(
                    f,
                    "read as {seconds} s; other crawlers may not: write a number of seconds, or a rate such as `1/10`"
                );
            }
            Self::DelayUnread => {
                "neither a number of seconds nor a rate such as `1/10`, ignored"
            }
            Self::EmptyGroup => "no rule follows: the group restricts nothing",
            Self::NeverMatches => "matches nothing: a rule's path begins with `/` or `*`",
            Self::CommentInside => {
                "`#` begins a comment, also inside a path; write `%23` for the character"
            }
            Self::Nul => "the line ends at its first NUL",
            Self::Cut => "only the first 16,663 octets of the line count",
            Self::NotUtf8 => "not UTF-8: compared octet by octet, percent-encoded",
            Self::Duplicate { line } => return write!(f, "says no more than line {line}"),
            Self::Shadowed { line } => {
                return write!(
                    f,
                    "never decides: line {line} is for the same paths and wins"
                );
            }
            Self::Unneeded => {
                "changes nothing: no disallow that it could win against is for any of its paths"
            }
            Self::Truncated => "the file is too long: from here on nothing counts",
            Self::Utf16 => "the file is UTF-16 and is decoded first: most crawlers read UTF-8 only, and find no rule",
            Self::ByteOrderMark => {
                "the file begins with a byte order mark, skipped here: other crawlers may not read its first line"
            }
            Self::Html => "the file is an HTML page, such as a site serves for every path: lines of markup are no rules, and without a rule all is allowed",
            Self::Xml => {
                "the file is an XML document, not a robots.txt: without a rule all is allowed"
            }
            Self::Utf16Unmarked => {
                "the file is UTF-16 without a byte order mark: no line can be read, and without a rule all is allowed"
            }
            Self::Utf32 => {
                "the file is UTF-32: no line can be read, and without a rule all is allowed"
            }
            Self::Compressed(name) => {
                return write!(
                    f,
                    "the file is compressed ({name}), and no Content-Encoding says so: no line can be read, and without a rule all is allowed"
                );
            }
            Self::SitemapList => {
                "a Sitemap line has one URL, without spaces: write each on a line of its own"
            }
            Self::SitemapUrl => "no absolute URL with its scheme, of no use to crawlers",
            Self::UsageInvalid => "the statement does not parse, ignored",
            Self::UsageUnknownKey => "a key that no vocabulary knows, ignored",
            Self::UsageValue => "a value that is neither `y` nor `n`: the preference is unknown",
            Self::UsageNoGroup => "stands before the first user-agent line and belongs to no group, ignored",
            Self::UsageNotCarried { line } => {
                return write!(
                    f,
                    "the longer path decides with its whole statement: what line {line} says of other categories does not hold here"
                );
            }
            Self::SignalValue => "a value that is neither `yes` nor `no`: the preference is unknown",
            Self::SignalAboveGroups => {
                "stands above all groups: some crawlers ignore it, here it counts for groups without one of their own"
            }
            Self::LicenseInGroup => {
                "belongs to the group above alone; a licence for all crawlers stands above all groups"
            }
            Self::LicenseUrl => "no absolute http or https URL, ignored",
        })
    }
}
