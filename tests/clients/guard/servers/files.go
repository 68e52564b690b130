// Files, as the documentation of net/http serves them.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	http.Handle("/", http.FileServer(http.Dir(os.Args[2])))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
