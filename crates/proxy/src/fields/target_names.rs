//! The names of request fields that a server may take for the path or the host, or that rewrite them. `fields` forwards none
//! of them.
//!
//! The request line and Host were judged; these fields name another path, a prefix of it, or what becomes one: gunicorn
//! takes `SCRIPT_NAME` from a front that it trusts, frameworks behind IIS, Azure, Envoy, Traefik or Passenger take
//! `X-Original-URL`, `X-Rewrite-URL`, `X-Forwarded-Prefix` and their like. Others name another host, by which a framework
//! chooses the page: Rails takes `X-Forwarded-Host`, Rack `Forwarded`, and CherryPy makes a path of it. CGI hands fields to a program as variables
//! (RFC 3875 section 4.1.18), and so do WSGI, PSGI, Rack and PHP. Servers differ in the octets that become `_` in the name of
//! a variable; lighttpd takes every octet but a letter or a digit (`X.Rewrite.Url`). So names are compared in that form.

/// The names, in lower case, with `_` for every octet but a letter or a digit; sorted.
#[rustfmt::skip] // in lines
const NAMES: [&str; 155] = [
    "daphne_root_path", "document_uri", "document_url", "forwarded", "forwarded_host",
    "forwarded_path", "forwarded_prefix", "forwarded_uri", "http_host", "iis_was_url_rewritten",
    "iis_wasurlrewritten", "orig_path_info", "orig_path_translated", "orig_script_name",
    "original_fullpath", "original_path", "original_request_uri", "original_uri", "original_url",
    "path_info", "path_translated", "query_string", "raw_path", "raw_path_info", "raw_request_uri",
    "raw_uri", "raw_url", "redirect_path_info", "redirect_query_string", "redirect_request_uri",
    "redirect_script_name", "redirect_script_url", "redirect_uri", "redirect_url", "request_base",
    "request_filename", "request_path", "request_uri", "request_url", "rewrite_uri", "rewrite_url",
    "script_filename", "script_name", "script_path", "script_uri", "script_url", "unencoded_url",
    "x_accel_mapping", "x_accel_redirect", "x_astro_path", "x_backend_host", "x_base_path",
    "x_base_url", "x_context_path", "x_cyclops_path", "x_envoy_original_host",
    "x_envoy_original_path", "x_forwarded_authority", "x_forwarded_base", "x_forwarded_base_path",
    "x_forwarded_basepath", "x_forwarded_context", "x_forwarded_context_path", "x_forwarded_host",
    "x_forwarded_path", "x_forwarded_path_base", "x_forwarded_path_info", "x_forwarded_path_prefix",
    "x_forwarded_pathbase", "x_forwarded_prefix", "x_forwarded_request_uri", "x_forwarded_root",
    "x_forwarded_script_name", "x_forwarded_server", "x_forwarded_uri", "x_forwarded_url",
    "x_full_path", "x_full_url", "x_host", "x_host_override", "x_http_destinationurl",
    "x_http_host", "x_http_host_override", "x_http_path_override", "x_ingress_path",
    "x_invoke_output", "x_invoke_path", "x_invoke_query", "x_matched_path", "x_middleware_rewrite",
    "x_ms_original_url", "x_now_route_matches", "x_orig_host", "x_orig_path", "x_orig_uri",
    "x_orig_url", "x_origin_path", "x_origin_uri", "x_origin_url", "x_original_authority",
    "x_original_host", "x_original_path", "x_original_path_base", "x_original_path_info",
    "x_original_pathbase", "x_original_prefix", "x_original_request_uri", "x_original_uri",
    "x_original_url", "x_override_url", "x_path", "x_path_base", "x_path_info", "x_path_prefix",
    "x_pathbase", "x_pathinfo", "x_prefix", "x_proxy_host", "x_proxy_path", "x_proxy_prefix",
    "x_raw_uri", "x_real_host", "x_real_path", "x_real_uri", "x_real_url", "x_replaced_path",
    "x_request_base", "x_request_path", "x_request_path_info", "x_request_uri", "x_request_url",
    "x_rewrite_host", "x_rewrite_path", "x_rewrite_uri", "x_rewrite_url", "x_rewritten_url",
    "x_root_path", "x_script_filename", "x_script_name", "x_script_uri", "x_script_url",
    "x_scriptname", "x_sendfile_type", "x_target_path", "x_target_url", "x_traversal_path",
    "x_unencoded_url", "x_uri", "x_url", "x_url_path", "x_url_prefix", "x_vhm_root",
    "x_waws_unencoded_url", "x_web_root", "x_webroot",
];

/// The length of the longest name.
const LONGEST: usize = 24;

/// For each first letter, the lengths of the names that begin with it, one bit each.
const LENGTHS: [u64; 26] = lengths();

#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it, and names begin with a small letter"
)]
const fn lengths() -> [u64; 26] {
    let mut lengths = [0; 26];
    let mut at = 0;
    while at < NAMES.len() {
        let name = NAMES[at].as_bytes();
        lengths[(name[0] - b'a') as usize] |= 1 << name.len();
        at += 1;
    }
    lengths
}

/// Tells whether a field with this name, in lower case, may name a path or a host to a server.
pub(super) fn names_target(name: &str) -> bool {
    let name = name.as_bytes();
    let letter = name.first().map(|first| usize::from(first.wrapping_sub(b'a')));
    let lengths = letter.and_then(|letter| LENGTHS.get(letter)).copied().unwrap_or_default();
    // No name is empty. Most fields end here.
    if name.len() > LONGEST || lengths >> name.len() & 1 == 0 {
        return false;
    }
    let mut folded = [0; LONGEST];
    for (to, octet) in folded.iter_mut().zip(name) {
        *to = if octet.is_ascii_alphanumeric() { *octet } else { b'_' };
    }
    let folded = folded.get(..name.len()).unwrap_or_default();
    NAMES.binary_search_by(|known| known.as_bytes().cmp(folded)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_name_that_cgi_makes_equal_is_found() {
        assert!(NAMES.is_sorted());
        assert_eq!(NAMES.map(str::len).into_iter().max(), Some(LONGEST));
        for name in NAMES {
            for by in ["_", "-", ".", "!", "~", "'", "|"] {
                assert!(names_target(&name.replace('_', by)), "{name} with {by}");
                assert!(names_target(&name.replacen('_', by, 1)), "{name} with one {by}");
            }
        }
    }

    #[test]
    fn other_fields_name_no_target() {
        for name in [
            "",
            "accept",
            "host",
            "referer",
            "range",
            "origin",
            "pragma",
            "priority",
            "user-agent",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-port",
            "x-request-id",
            "x-requested-with",
            "x-pathx",
            "xurl",
            "x--url",
            "-x-url",
            "script-names",
            "destination",
            "0_uri",
            "sec-fetch-site",
            "upgrade-insecure-requests",
            "x-waws-unencoded-url-and-far-beyond-the-longest-name-of-all-these-fields-of-a-request",
        ] {
            assert!(!names_target(name), "{name}");
        }
    }
}
