// Node's own server, the URL decoded as a whole before it is read: by the URL Standard, or by Node's older `url.parse`.
const [port, root, by] = process.argv.slice(2);
const { createServer } = require("node:http");
const { readFile } = require("node:fs");
const { join } = require("node:path");
const { parse } = require("node:url");

createServer((request, response) => {
    let name;
    try {
        const url = decodeURIComponent(request.url);
        const { pathname, query, searchParams } = by === "parse" ? parse(url, true) : new URL(url, "http://localhost");
        const title = searchParams ? searchParams.get("title") : query.title;
        if (pathname === "/wiki") return response.end(`marker:/wiki?title=${title}`);
        // `url.parse` writes some octets as escapes again.
        name = decodeURIComponent(pathname);
        readFile(join(root, name), (error, data) => response.writeHead(error ? 404 : 200).end(data));
    } catch {
        response.writeHead(400).end();
    }
}).listen(port, "127.0.0.1");
