import org.apache.catalina.Wrapper;
import org.apache.catalina.servlets.DefaultServlet;

/** Tomcat, serving files; `lenient` takes encoded slashes and backslashes for slashes. */
public class Tomcat {
    public static void main(String[] args) throws Exception {
        var tomcat = new org.apache.catalina.startup.Tomcat();
        tomcat.setBaseDir(args[2]);
        var connector = new org.apache.catalina.connector.Connector();
        connector.setPort(Integer.parseInt(args[0]));
        connector.setProperty("address", "127.0.0.1");
        if (args[3].equals("lenient")) {
            connector.setEncodedSolidusHandling("decode");
            connector.setAllowBackslash(true);
        }
        tomcat.setConnector(connector);
        var context = tomcat.addContext("", args[1]);
        Wrapper files = org.apache.catalina.startup.Tomcat.addServlet(context, "files", new DefaultServlet());
        files.setLoadOnStartup(1);
        context.addServletMappingDecoded("/", "files");
        tomcat.start();
        tomcat.getServer().await();
    }
}
