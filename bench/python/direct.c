/* An allreduce of float32 as a function of Python's limited C API, which takes
 * a buffer as any package without cffi would. call_cost.py compares with it. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gloo_c/gloo_c.h>
#include <string.h>

static gloo_context *direct_context;

static PyObject *direct_init(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  gloo_error error;
  if (gloo_init(NULL, &direct_context, &error) == GLOO_OK)
    return PyLong_FromLong(0);
  return PyErr_SetString(PyExc_RuntimeError, error.message), NULL;
}

static PyObject *direct_allreduce(PyObject *self, PyObject *array) {
  (void)self;
  Py_buffer view;
  int flags = PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS;
  if (PyObject_GetBuffer(array, &view, flags) != 0) return NULL;
  if (view.format == NULL || strcmp(view.format, "f") != 0) {
    PyBuffer_Release(&view);
    return PyErr_SetString(PyExc_TypeError, "float32 only"), NULL;
  }
  gloo_error error;
  gloo_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = gloo_allreduce(direct_context, GLOO_IN_PLACE, view.buf,
                          (size_t)view.len / 4, GLOO_FLOAT32, GLOO_SUM, NULL,
                          &error);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&view);
  if (status != GLOO_OK)
    return PyErr_SetString(PyExc_RuntimeError, error.message), NULL;
  Py_INCREF(array);
  return array;
}

static PyMethodDef direct_methods[] = {
    {"init", direct_init, METH_NOARGS, NULL},
    {"allreduce", direct_allreduce, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef direct_module = {PyModuleDef_HEAD_INIT,
                                           "direct",
                                           NULL,
                                           -1,
                                           direct_methods,
                                           NULL,
                                           NULL,
                                           NULL,
                                           NULL};
PyMODINIT_FUNC PyInit_direct(void);
PyMODINIT_FUNC PyInit_direct(void) {
  return PyModule_Create(&direct_module);
}
