//! Real clients that send a body to a denied page: each gets its 403, in every way of sending.

use std::fs;
use std::process::Command;

use crate::visit::{Visit, client, finish, python};

/// The octets of an upload that does not fit into the buffers of a connection.
const UPLOAD: &str = "2000000";

/// The number of uploads of each client in each way.
const UPLOADS: &str = "20";

/// Runs a client with two disallowed URLs, the octets of a body and a number of uploads. The client prints the status
/// of each POST or the reason of its failure; every POST must get a 403.
#[track_caller]
fn each_upload_gets_its_403<S: Into<String>>(start: impl IntoIterator<Item = S>) {
    let visit = Visit::new();
    let urls = [visit.http.url("/private"), visit.https.url("/private")];
    let words = [UPLOAD.to_owned(), UPLOADS.to_owned()];
    let arguments = start.into_iter().map(Into::into).chain(urls).chain(words);
    let outcome = visit.run(arguments);
    let statuses: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!(statuses, ["403"; 40], "{}", outcome.stderr);
    for origin in [&visit.http, &visit.https] {
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn python_requests_gets_its_403_for_each_upload() {
    let python = or_skip!(python("requests"));
    let program = "import sys, requests\n\
        urls, size, times = sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])\n\
        for url in urls:\n\
        \x20   for _ in range(times):\n\
        \x20       try: print(requests.post(url, data=b'x' * size).status_code)\n\
        \x20       except Exception as why: print(why)\n";
    each_upload_gets_its_403([python.as_str(), "-c", program]);
}

#[test]
fn curl_gets_its_403_for_each_upload() {
    let curl = or_skip!(client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]));
    let dir = tempfile::tempdir().unwrap();
    let body = dir.path().join("body");
    fs::write(&body, vec![b'x'; UPLOAD.parse().unwrap()]).unwrap();
    let program = format!(
        "for url in \"$1\" \"$2\"; do for _ in $(seq \"$4\"); do\n\
         {curl} -s -S -o /dev/null -w '%{{http_code}}\\n' --data-binary @{} \"$url\" 2>&1\n\
         {curl} -s -S -o /dev/null -H Expect: --data-binary @{} \"$url\" || echo \"without Expect: $?\"\n\
         done; done",
        body.display(),
        body.display()
    );
    each_upload_gets_its_403(["sh", "-c", &program, "sh"]);
}

#[test]
fn java_gets_its_403_for_each_upload() {
    let java = or_skip!(client("Java", "CRAWLGATE_JAVA", &["java"], &["-version"]));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("Upload.java");
    fs::write(
        &source,
        "import java.net.URI;\n\
         import java.net.http.*;\n\
         class Upload {\n\
         \x20   public static void main(String[] words) throws Exception {\n\
         \x20       var client = HttpClient.newBuilder().proxy(java.net.ProxySelector.getDefault()).build();\n\
         \x20       for (int url = 0; url < 2; url++)\n\
         \x20           for (int n = Integer.parseInt(words[3]); n > 0; n--) {\n\
         \x20               var body = HttpRequest.BodyPublishers.ofByteArray(new byte[Integer.parseInt(words[2])]);\n\
         \x20               var request = HttpRequest.newBuilder(URI.create(words[url])).POST(body).build();\n\
         \x20               try { System.out.println(client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode()); }\n\
         \x20               catch (Exception why) { System.out.println(why); }\n\
         \x20           }\n\
         \x20   }\n\
         }\n",
    )
    .unwrap();
    each_upload_gets_its_403([java.as_str(), source.to_str().unwrap()]);
}

#[test]
fn go_gets_its_403_for_each_upload() {
    let go = or_skip!(client("Go", "CRAWLGATE_GO", &["go"], &["version"]));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("upload.go");
    fs::write(
        &source,
        "package main\n\
         import (\"bytes\"; \"fmt\"; \"io\"; \"net/http\"; \"os\"; \"strconv\")\n\
         func main() {\n\
         \tsize, _ := strconv.Atoi(os.Args[3])\n\
         \ttimes, _ := strconv.Atoi(os.Args[4])\n\
         \tfor _, url := range os.Args[1:3] {\n\
         \t\tfor n := 0; n < times; n++ {\n\
         \t\t\tanswer, err := http.Post(url, \"text/plain\", bytes.NewReader(make([]byte, size)))\n\
         \t\t\tif err != nil { fmt.Println(err); continue }\n\
         \t\t\tif _, err = io.ReadAll(answer.Body); err != nil { fmt.Println(err); continue }\n\
         \t\t\tanswer.Body.Close()\n\
         \t\t\tfmt.Println(answer.StatusCode)\n\
         \t\t}\n\
         \t}\n\
         }\n",
    )
    .unwrap();
    let program = dir.path().join("upload");
    let mut build = Command::new(go);
    build.env("GO111MODULE", "off").env("GOCACHE", dir.path());
    build.env("CGO_ENABLED", "0").current_dir(dir.path());
    build.args(["build", "-o", "upload", "upload.go"]);
    assert!(finish(&mut build).status.success());
    each_upload_gets_its_403([program.to_str().unwrap()]);
}
