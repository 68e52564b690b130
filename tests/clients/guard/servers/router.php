<?php // A front controller, as frameworks have one: the path without its query, decoded.
$path = rawurldecode(parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH) ?: "/");
if ($path === "/wiki") {
    echo "marker:/wiki?title=", $_GET["title"] ?? "";
    return;
}
$file = realpath($_SERVER["DOCUMENT_ROOT"] . $path);
if ($file === false || !is_file($file)) {
    http_response_code(404);
    return;
}
readfile($file);
