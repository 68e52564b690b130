// Node's own server and the URL Standard: `new URL(request.url, base)`.
const [port, root] = process.argv.slice(2);
const { createServer } = require("node:http");
const { readFile } = require("node:fs");
const { join } = require("node:path");

createServer((request, response) => {
    let name;
    try {
        const { pathname, searchParams } = new URL(request.url, "http://localhost");
        if (pathname === "/wiki") return response.end(`marker:/wiki?title=${searchParams.get("title")}`);
        name = decodeURIComponent(pathname);
        readFile(join(root, name), (error, data) => response.writeHead(error ? 404 : 200).end(data));
    } catch {
        response.writeHead(400).end();
    }
}).listen(port, "127.0.0.1");
