// Node's own server and a decoded path: the part before the query, joined to the folder.
const [port, root] = process.argv.slice(2);
const { createServer } = require("node:http");
const { readFile } = require("node:fs");
const { join } = require("node:path");

createServer((request, response) => {
    let name;
    try {
        name = decodeURIComponent(request.url.split("?")[0]);
        readFile(join(root, name), (error, data) => response.writeHead(error ? 404 : 200).end(data));
    } catch {
        response.writeHead(400).end();
    }
}).listen(port, "127.0.0.1");
