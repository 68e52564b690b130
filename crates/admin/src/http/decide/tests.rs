use super::*;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

fn text_of(fields: &[(&'static str, &str)]) -> String {
    match original(&headers(fields)) {
        Ok(url) => String::from_utf8(url).unwrap(),
        Err(BadRequest(why)) => why,
    }
}

#[test]
fn fields_tell_one_url_or_none() {
    let url = |url| ("x-original-url", url);
    let proto = |proto| ("x-forwarded-proto", proto);
    let host = |host| ("x-original-host", host);
    let path = |path| ("x-original-uri", path);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("whole", &[url("http://a.test:81/x?y")][..], "http://a.test:81/x?y"),
        ("whole, without a path", &[url("https://a.test")], "https://a.test"),
        ("in parts", &[proto("https"), host("[::1]:81"), path("/x?http://b.test/")], "https://[::1]:81/x?http://b.test/"),
        ("a scheme beside an absolute URL does not count", &[url("http://a.test/"), proto("https")], "http://a.test/"),
        ("no scheme", &[host("a.test"), path("/x")], "x-forwarded-proto is missing: it tells what is going to be sent, so the proxy that asks must set it."),
        ("no host", &[proto("http"), path("/x")], "x-original-host is missing: it tells what is going to be sent, so the proxy that asks must set it."),
        ("two hosts", &[proto("http"), host("a.test"), host("b.test"), path("/x")], "x-original-host is there twice; the proxy that asks must set it, not add it."),
        ("both ways at once", &[url("http://a.test/"), path("/x")], "x-original-uri beside x-original-url: only one of them can be what is sent; clear the other one."),
        ("a host with a path", &[proto("http"), host("a.test/y?"), path("/x")], "The host must be a name or an address, with or without a port."),
        ("a list of schemes", &[proto("http, https"), host("a.test"), path("/x")], "The scheme must be http or https."),
        ("a user before the host", &[url("http://a.test@b.test/")], "x-original-url must be a whole URL, as in http://example.com/page, without userinfo."),
        ("no host in it", &[url("http:///x")], "x-original-url must be a whole URL, as in http://example.com/page, without userinfo."),
    ];
    for (name, fields, expected) in cases {
        assert_eq!(text_of(fields), expected, "{name}");
    }
}

#[test]
fn envoys_paths_differ_from_the_consoles() {
    for (path, expected) in [
        ("/ext-authz/", true),
        ("/ext-authz/decide", true),
        ("/ext-authz", false),
        ("/ext-authzx/", false),
        ("/api/v1/ext-authz/", false),
    ] {
        assert_eq!(borrows_head(path), expected, "{path}");
    }
}
