"""What differs from run to run of one program, and the words in its place. The order counts."""

# Texts that no run, but only a program, can change: nothing but paths and ports is masked there.
FIXED = {"help", "help-short", "completions", "man", "plain", "config", "check", "wrong-configs", "wrong-words"}

# The build that runs, and the time of a message on standard error: everywhere.
EVERYWHERE = [
    (r'\b(commit(?:: |="|": ?"))[\w-]+', r"\1<commit>"),
    (r'(?m)(^date: |\bdate="|"date": ?")[\w-]+(?="|$)', r"\1<day>"),
    (r"(?m)^(! )?20\d\d-\d\d-\d\dT[\d:.]+Z  (?=WARN|INFO|ERROR)", r"\1<time>  "),
]

MASKS = [
    (r"(?s)(-----BEGIN CERTIFICATE-----\n).*?(?=-----END)", r"\1<certificate>\n"),
    # Times and durations.
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d(:|%3A)\d\d((:|%3A)\d\d(\.\d+)?)?Z?", "<time>"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "<date>"),
    (r"\b20\d\d-\d\d-\d\d\b", "<day>"),
    (r"\b((?:hold_ms|duration_ms|age_s|age_seconds|created|pid|process)(?:\\?\"|&#34;): ?)[\d.]+", r"\1<n>"),
    (r"\b[\d,.]+ ms\b *", "<n> ms "),
    (r"<time> to <time>", "<time>"),
    (r'(<text class="time[^>]*>)\d\d:00<', r"\1<time><"),
    (r"\b\d+(ms|s|m) ago\b", "<n> ago"),
    (r"(?m)(?<= )\d+s( +)in \d+(s|m|h)\b", "<n> in <n>"),
    (r"(?i)(retry-after: )(?!3600\b)\d{3,}", r"\1<n>"),
    (r"(\.damaged-)\d{13}", r"\1<time>"),
    # The hops of a decision's fetch: the program finds them where two of its readings of the clock agree.
    (r'(?m)^( "hops": )(null|\[[^\]]*\])', r"\1<hops or null>"),
    # Sizes that depend on when something is written.
    (r'("bytes": ?)\d{6,}', r"\1<n>"),
    (r"(?m)^(octets +)\d+", r"\1<n>"),
    (r"\b(tail|leftover): \d+ saved", r"\1: <n> saved"),
    (r"\b(created|expires)=\d{10}\b", r"\1=<time>"),
    # Names, keys, digests and signatures that rest on keys and times.
    (r"\bcrawlgate-[0-9a-hj-km-np-tv-z]{8}\b", "crawlgate-<name>"),
    (r"\bcrawlgate local CA [0-9a-f]{8}\b", "crawlgate local CA <n>"),
    (r"(\b|(?<=\\n))crawlgate(/|%2F)[0-9a-f]{16}\b", "<log>"),
    (r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}(?![A-Za-z0-9+/])", "+<key>"),
    (r"(— \S+ )[A-Za-z0-9+/]{60,}=*", r"\1<signature>"),
    (r"=:[A-Za-z0-9+/]{86}==:", "=:<signature>:"),
    (r"((?<![A-Za-z0-9+/])|(?<=\\n))[A-Za-z0-9+/]{43}=", "<digest>"),
    (r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[A-Za-z0-9_-]{43}(?![\w-])", "<digest>"),
    (r"\b([0-9A-F]{2}:){31}[0-9A-F]{2}\b", "<fingerprint>"),
    (r'("(?:hash|configuration)": ?")[0-9a-f]{64}', r"\1<digest>"),
    (r"(Hash of its leaf: <code>)[0-9a-f]{64}", r"\1<digest>"),
    (r"\b(before=)[0-9a-f]{12}-", r"\1<n>-"),
    (r'("kind": ?"basis", ?"sha256": ?")[0-9a-f]{64}', r"\1<digest>"),
    (r'("(?:entry|body_base64|next)": ?")[A-Za-z0-9+/_=-]+', r"\1<octets>"),
    (r'(name="csrf" value=")[0-9a-f]{64}', r"\1<token>"),
    # Ports of crawlers and of gates that `run` starts; their directories.
    (r"\b127\.0\.0\.1:(?!811[89]\b)\d{4,5}\b", "127.0.0.1:<port>"),
    (r"(proxyPort=)\d+", r"\1<port>"),
    (r"/tmp/crawlgate-\w{6}\b", "<run>"),
]

# An id that a run has made; those of inputs begin otherwise.
ID = r"\b01(?!KB7W3Y5E)[0-9A-HJKMNP-TV-Z]{24}\b"
