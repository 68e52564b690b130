import java.net.InetSocketAddress;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.ResourceHandler;

/** Jetty, serving files. */
public class Jetty {
    public static void main(String[] args) throws Exception {
        var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
        var files = new ResourceHandler();
        files.setResourceBase(args[1]);
        server.setHandler(files);
        server.start();
        server.join();
    }
}
