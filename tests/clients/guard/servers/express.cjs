// Express, with the file server of its guide.
const [port, root] = process.argv.slice(2);
const express = require("express");

const app = express();
app.get("/wiki", (request, response) => response.send(`marker:/wiki?title=${request.query.title}`));
app.use(express.static(root));
app.listen(port, "127.0.0.1");
