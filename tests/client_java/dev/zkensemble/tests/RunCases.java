package dev.zkensemble.tests;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Comparator;

/**
 * Runs every case of a class of cases against a server, each on an object of its own, and prints {@code PASS name} or
 * {@code FAIL name} with the trace indented below. Usage: {@code RunCases CLASS HOSTS}.
 */
public final class RunCases {
    private RunCases() {}

    public static void main(String[] args) throws Exception {
        Class<?> cases = Class.forName(RunCases.class.getPackageName() + "." + args[0]);
        Method[] methods = cases.getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (Modifier.isPublic(method.getModifiers()) && !method.getName().equals("close")) {
                run(cases, method, args[1]);
            }
        }
        System.out.println("END");
        System.exit(0); // client threads of a failed case must not keep the process
    }

    private static void run(Class<?> cases, Method method, String hosts) throws Exception {
        Object instance = cases.getDeclaredConstructor(String.class, String.class).newInstance(hosts, method.getName());
        try {
            method.invoke(instance);
            System.out.println("PASS " + method.getName());
        } catch (InvocationTargetException e) {
            StringWriter trace = new StringWriter();
            e.getCause().printStackTrace(new PrintWriter(trace));
            System.out.println("FAIL " + method.getName());
            trace.toString().lines().limit(30).forEach(line -> System.out.println("  " + line));
        } finally {
            ((AutoCloseable) instance).close();
        }
    }
}
